module @marks {
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>) {
    %0 = stablehlo.custom_call @quern.stop_gradient(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = stablehlo.custom_call @quern.custom_vjp(%0) {called_computations = [@fn_0, @fn_1, @fn_2]} : (tensor<3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @fn_0(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.sine %arg0 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
  func.func private @fn_1(%arg0: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.sine %arg0 : tensor<3xf32>
    return %0, %arg0 : tensor<3xf32>, tensor<3xf32>
  }
  func.func private @fn_2(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.negate %arg1 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
