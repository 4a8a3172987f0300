module @jit_nan {
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>) {
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.0> : tensor<3xf32>
    %0 = stablehlo.subtract %arg0, %cst_0 : tensor<3xf32>
    %1 = stablehlo.log %0 : tensor<3xf32>
    %2 = stablehlo.sqrt %0 : tensor<3xf32>
    %3 = stablehlo.add %2, %2 : tensor<3xf32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    return %4, %arg0 : tensor<f32>, tensor<3xf32>
  }
}
