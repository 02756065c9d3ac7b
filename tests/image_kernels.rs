//! Answers of the image kernels that can be worked out by hand or are published, so that reference and shaders cannot be
//! wrong together. Run on the CPU reference, to which the parity test holds every device.

use wgattn::backend::{Backend as _, cpu::CpuBackend};
use wgattn::graph::Graph;
use wgattn::kernels::image::{colormap, depthwise_conv, oklab, patchify, to_linear};
use wgattn::tensor::{DType, HostData, HostTensor, Tensor};

/// Runs a graph of one output on the CPU.
fn run(graph: &mut Graph, out: Tensor, inputs: &[(Tensor, HostData)]) -> HostTensor {
    graph.output(out).expect("works");
    let mut program = CpuBackend.compile(graph).expect("works");
    for (tensor, data) in inputs {
        program
            .write(*tensor, &HostTensor::new(tensor.shape(), data.clone()).expect("works"))
            .expect("works");
    }
    program.run().expect("works");
    program.read(out).expect("works")
}

fn assert_near(got: &HostTensor, expected: &[f64], tolerance: f64) {
    let got = got.to_f64();
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= tolerance, "element {i} is {got}, expected {expected}");
    }
}

#[test]
fn display_bytes_become_linear_light_over_white() {
    let mut graph = Graph::new("linear");
    let pixels = graph.input("pixels", [1, 5], DType::Rgba8);
    let out = to_linear::record(&mut graph, "out", pixels).expect("works");
    let input = vec![[0, 0, 0, 255], [255, 255, 255, 255], [10, 11, 188, 255], [0, 0, 0, 0], [0, 255, 0, 51]];
    let got = run(&mut graph, out, &[(pixels, HostData::Rgba8(input))]);
    // 10 is on the straight part: 10 / 255 / 12.92; alpha 51 is a fifth.
    let expected = [
        [0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0],
        [0.003_035_269_8, 0.003_346_535_8, 0.502_886_458_1],
        [1.0, 1.0, 1.0],
        [0.8, 1.0, 0.8],
    ];
    assert_near(&got, expected.as_flattened(), 1e-9);
}

#[test]
fn primaries_have_their_published_oklab_coordinates() {
    let mut graph = Graph::new("oklab");
    let rgb = graph.input("rgb", [1, 5, 3], DType::F32);
    let out = oklab::record(&mut graph, "out", rgb).expect("works");
    let colours = vec![1., 1., 1., 1., 0., 0., 0., 1., 0., 0., 0., 1., 0., 0., 0.];
    let got = run(&mut graph, out, &[(rgb, HostData::F32(colours))]);
    let expected = [
        [1.0, 0.0, 0.0],
        [0.627_955, 0.224_863, 0.125_846],
        [0.866_440, -0.233_888, 0.179_498],
        [0.452_014, -0.032_457, -0.311_528],
        [0.0, 0.0, 0.0],
    ];
    assert_near(&got, expected.as_flattened(), 1e-5);
}

fn patches(rows: u32, cols: u32, tokens: u32, params: patchify::Params) -> Vec<f64> {
    let mut graph = Graph::new("patches");
    let image = graph.input("image", [rows, cols, 1], DType::F32);
    let out = patchify::record(&mut graph, "out", image, tokens, params).expect("works");
    let numbers = (0..rows * cols).map(|i| i as f32).collect();
    run(&mut graph, out, &[(image, HostData::F32(numbers))]).to_f64()
}

#[test]
fn patches_of_their_stride_tile_the_picture() {
    let params = patchify::Params { patch_size: 2, stride: 2, grid_cols: 2, first_token: 0, first_row: 0 };
    let expected = [0., 1., 4., 5., 2., 3., 6., 7., 8., 9., 12., 13., 10., 11., 14., 15.];
    assert_eq!(patches(4, 4, 4, params), expected);
    let strip = patchify::Params { first_token: 2, ..params };
    assert_eq!(patches(4, 4, 2, strip), expected[8..]);
}

#[test]
fn wide_patches_are_centred_and_repeat_the_edge() {
    // 3 x 3 around each pixel of a 2 x 2 picture.
    let params = patchify::Params { patch_size: 3, stride: 1, grid_cols: 2, first_token: 0, first_row: 0 };
    let expected = [
        [0., 0., 1., 0., 0., 1., 2., 2., 3.],
        [0., 1., 1., 0., 1., 1., 2., 3., 3.],
        [0., 0., 1., 2., 2., 3., 2., 2., 3.],
        [0., 1., 1., 2., 3., 3., 2., 3., 3.],
    ];
    assert_eq!(patches(2, 2, 4, params), expected.as_flattened());
}

#[test]
fn impossible_patches_are_refused() {
    let mut graph = Graph::new("patches");
    let image = graph.input("image", [4, 4, 3], DType::F32);
    for params in [
        patchify::Params { patch_size: 0, ..Default::default() },
        patchify::Params { stride: 0, ..Default::default() },
        patchify::Params { grid_cols: 0, ..Default::default() },
        patchify::Params { patch_size: u32::MAX, ..Default::default() },
        patchify::Params { stride: u32::MAX, ..Default::default() },
        patchify::Params { first_token: u32::MAX, ..Default::default() },
    ] {
        let error = patchify::record(&mut graph, "out", image, 4, params).unwrap_err().to_string();
        assert!(error.contains("patchify") && error.contains(file!()), "{params:?}: {error}");
    }
}

#[test]
fn colours_are_blended_and_ends_are_held() {
    let mut graph = Graph::new("colours");
    let values = graph.input("values", [1, 7], DType::F32);
    let colours = graph.input("colours", [256], DType::U32);
    let params = colormap::Params { low: 0.0, high: 255.0, nan: 0x0403_0201, infinite: 0x0403_0201 };
    let out = colormap::record(&mut graph, "out", values, colours, params).expect("works");
    // Red doubles along the table up to 100 entries, so a half step is one byte.
    let table = (0..256_u32).map(|i| u32::from_le_bytes([(2 * i.min(100)) as u8, 7, 0, 255])).collect();
    let input = vec![-9.0, 0.0, 10.5, 99.5, 1e9, f32::NAN, f32::INFINITY];
    let got = run(&mut graph, out, &[(values, HostData::F32(input)), (colours, HostData::U32(table))]);
    let expected = [0, 0, 21, 199, 200].map(|red| [red, 7, 0, 255]);
    let expected = [&expected[..], &[[1, 2, 3, 4]; 2]].concat();
    assert_eq!(got.data(), &HostData::Rgba8(expected));
    for (low, high) in [(1.0, 1.0), (1.0, 0.0), (f32::NAN, 1.0), (0.0, f32::INFINITY), (-3e38, 3e38)] {
        let params = colormap::Params { low, high, ..params };
        let error = colormap::record(&mut graph, "out", values, colours, params).unwrap_err().to_string();
        assert!(error.contains("colormap"), "{error}");
    }
}

#[test]
fn convolution_weights_point_where_they_say() {
    // Channel 0 looks one row up, channel 1 one column to the right; the grid is 2 x 3.
    let mut graph = Graph::new("convolution");
    let v = graph.input("v", [1, 1, 6, 2], DType::F32);
    let weight = graph.input("weight", [1, 2, 9], DType::F32);
    let out = depthwise_conv::record(&mut graph, "out", v, weight, None, 3).expect("works");
    let numbers = (1..=6).flat_map(|i| [i as f32, 10.0 * i as f32]).collect();
    let mut weights = vec![0.0; 18];
    weights[1] = 1.0;
    weights[9 + 5] = 1.0;
    let got = run(&mut graph, out, &[(v, HostData::F32(numbers)), (weight, HostData::F32(weights))]);
    assert_eq!(got.to_f64(), [0., 20., 0., 30., 0., 0., 1., 50., 2., 60., 3., 0.]);
    let error = depthwise_conv::record(&mut graph, "out", v, weight, None, 4).unwrap_err().to_string();
    assert!(error.contains("grid_cols") && error.contains('6'), "{error}");
}
