# One line per optional part, so that nobody has to guess what a build can do.
function(qn_report what present why)
  if(present)
    message(STATUS "  ${what}: yes")
  else()
    message(STATUS "  ${what}: no (${why})")
  endif()
endfunction()

message(STATUS "Quern ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, "
               "sanitizers: ${QN_SANITIZE}")
qn_report("OpenCL driver" "${QN_HAVE_OPENCL}" "switched off, no CL/cl.h (opencl-headers), or no sources")
qn_report("Vulkan driver" "${QN_HAVE_VULKAN}" "switched off, no vulkan/vulkan.h (libvulkan-dev), or no sources")
qn_report("CPU code by LLVM ${QN_LLVM_VERSION}" "${QN_HAVE_LLVM}"
          "switched off, no llvm-${QN_LLVM_VERSION}-dev, or no sources; kernels are interpreted")
qn_report("GLSL to SPIR-V" "${QN_HAVE_GLSLANG}" "switched off, no glslang-dev or C++ compiler, or no sources")
qn_report("kernel cache" "${QN_SQLITE_LIBS}" "switched off, or no libsqlite3-dev")
qn_report("compressed data (zlib)" "${QN_ZLIB_LIBS}" "no zlib1g-dev")
qn_report("images (libpng)" "${QN_PNG_LIBS}" "no libpng-dev")
qn_report("JSON (cJSON)" "${QN_CJSON_LIBS}" "no libcjson-dev")
if(QN_TESTS)
  qn_report("Criterion tests" "${qn_have_criterion}" "switched off, or no libcriterion-dev; plain tests only")
endif()
