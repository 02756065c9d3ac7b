//! Token grids, features and the default bandwidth.

use glam::{DVec2, UVec2};
use wgattn::vision::bandwidth::{Metric, default_lambda};
use wgattn::vision::colour::oklab;
use wgattn::vision::features::{FeatureBasis, FeatureError, FeatureOptions, Recipe, token_place};
use wgattn::vision::grid::{GridError, MAX_PATCH, TokenGrid};
use wgattn::vision::image::LinearImage;

fn plan(width: u32, height: u32, patch: u32, stride: u32, most: usize) -> TokenGrid {
    TokenGrid::plan(UVec2::new(width, height), patch, stride, most).expect("a valid grid")
}

/// Seeded noise in 0…1 over a smooth ramp.
fn picture(cols: usize, rows: usize, seed: u64) -> LinearImage {
    let mut state = seed;
    let mut noise = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let sample = |i: usize| 0.5 * (i / 3 % cols) as f32 / cols as f32 + 0.4 * noise();
    LinearImage::from_samples(rows, cols, (0..rows * cols * 3).map(sample).collect())
        .expect("matching length")
}

#[test]
fn every_pixel_belongs_to_exactly_one_token_and_lies_in_its_rectangle() {
    for width in [1, 50, 63, 64, 65, 4097] {
        for (patch, stride, most) in [(8, 4, 16_384), (8, 8, 40), (3, 5, 16_384), (1, 1, 7), (16, 4, 1)] {
            let grid = plan(width, 11, patch, stride, most);
            assert!(grid.tokens() <= most, "{} tokens of at most {most}", grid.tokens());
            let mut area = 0.0;
            for token in 0..grid.tokens() {
                let rect = grid.token_rect(token).expect("a token");
                area += (rect.max - rect.min).element_product();
            }
            let want = f64::from(width) * 11.0;
            assert!((area - want).abs() < 1e-6 * want, "cells tile the picture: {area} of {want}");
            for y in 0..11 {
                for x in 0..width {
                    let token = grid.token_at(UVec2::new(x, y)).expect("inside");
                    let rect = grid.token_rect(token).expect("a token");
                    let middle = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5);
                    let (low, high) = (middle - rect.min, rect.max - middle);
                    assert!(
                        low.min_element() >= -1e-9 && high.min_element() >= -1e-9,
                        "({x}, {y}) of {width}: {rect:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn stride_grows_only_as_much_as_the_limit_asks() {
    let free = plan(640, 480, 8, 4, 19_200);
    assert!(!free.grew() && free.notice().is_none());
    assert_eq!((free.rows(), free.cols()), (120, 160));
    assert_eq!(free.effective_stride(), DVec2::splat(4.0));
    let tight = plan(640, 480, 8, 4, 19_199);
    assert!(tight.grew() && tight.tokens() > 18_000 && tight.notice().is_some());
    let large = plan(8000, 6000, 8, 4, 16_384);
    assert!((16_000..=16_384).contains(&large.tokens()), "{} tokens", large.tokens());
    let ratio = large.effective_patch() / large.effective_stride();
    assert!((ratio - 2.0).abs().max_element() < 1e-12, "patch grows with stride");
}

#[test]
fn patches_are_centred_on_their_cells() {
    let origin =
        |patch, stride, token| plan(40, 40, patch, stride, 10_000).patch_origin(token).expect("a token");
    assert_eq!(origin(8, 4, 0), (-2, -2));
    assert_eq!(origin(8, 4, 11), (2, 2));
    assert_eq!(origin(4, 4, 0), (0, 0));
    assert_eq!(origin(2, 4, 0), (1, 1));
    assert_eq!(origin(5, 4, 0), (-1, -1));
}

#[test]
fn impossible_grids_are_refused() {
    let plan = |w, h, patch, stride, most| TokenGrid::plan(UVec2::new(w, h), patch, stride, most);
    assert_eq!(plan(0, 5, 8, 4, 9), Err(GridError::EmptyPicture { width: 0, height: 5 }));
    assert_eq!(plan(5, 5, 0, 4, 9), Err(GridError::Patch { patch: 0 }));
    assert_eq!(plan(5, 5, MAX_PATCH + 1, 4, 9), Err(GridError::Patch { patch: MAX_PATCH + 1 }));
    assert_eq!(plan(5, 5, 8, 0, 9), Err(GridError::Stride));
    assert_eq!(plan(5, 5, 8, 4, 0), Err(GridError::NoTokens));
    let grid = plan(5, 6, 8, 4, 9).expect("smaller than a patch works");
    assert_eq!((grid.rows(), grid.cols()), (2, 2));
    let outside = grid.token_at(UVec2::new(5, 0)).expect_err("outside").to_string();
    assert!(outside.contains("pixel (5, 0)") && outside.contains("x < 5 and 0 <= y < 6"), "{outside}");
    assert!(matches!(grid.token_rect(4), Err(GridError::NoSuchToken { token: 4, tokens: 4 })));
}

#[test]
fn oklab_has_the_published_values() {
    let close = |got: [f64; 3], want: [f64; 3]| got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-3);
    assert!(close(oklab([1.0; 3]), [1.0, 0.0, 0.0]));
    assert!(close(oklab([0.0; 3]), [0.0; 3]));
    assert!(close(oklab([1.0, 0.0, 0.0]), [0.628, 0.225, 0.126]), "{:?}", oklab([1.0, 0.0, 0.0]));
}

#[test]
fn features_have_unit_scale_for_any_heads_and_columns() {
    let image = picture(45, 37, 1);
    for patch in [1, 2, 3, 8, 13] {
        let grid = plan(45, 37, patch, 4, 10_000);
        for (heads, head_dim) in [(1, 1), (2, 2), (4, 32), (5, 7), (1, 200)] {
            let options = FeatureOptions { heads, head_dim, ..FeatureOptions::default() };
            let basis = FeatureBasis::fit(&image, &grid, &options).expect("features");
            assert_eq!(basis.weights().len(), heads * grid.patch_len() * head_dim);
            let q = basis.project(&image, &grid).expect("q");
            for (head, block) in q.chunks_exact(grid.tokens() * head_dim).enumerate() {
                let square = block.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / block.len() as f64;
                let want = 1.0 / head_dim as f64;
                // W is rounded to f32; patches have up to 500 terms.
                assert!(
                    (square / want - 1.0).abs() < 1e-4,
                    "patch {patch}, head {head} of {heads}, d {head_dim}: {square}, want {want}"
                );
            }
        }
    }
}

#[test]
fn projection_is_patch_times_weights_plus_place() {
    let (image, grid) = (picture(21, 10, 2), plan(21, 10, 3, 2, 10_000));
    let options = FeatureOptions { heads: 2, head_dim: 5, ..FeatureOptions::default() };
    let basis = FeatureBasis::fit(&image, &grid, &options).expect("features");
    let (q, r) = (basis.project(&image, &grid).expect("q"), basis.place_terms(&grid));
    let (n, p, d) = (grid.tokens(), grid.patch_len(), 5);
    for (head, token) in [(0, 0), (1, 0), (0, n - 1), (1, n / 2)] {
        let (row, col) = grid.patch_origin(token).expect("a token");
        let place = token_place(&grid, token);
        for j in 0..d {
            let mut sum = 0.0;
            for i in 0..p {
                let rgb = image.pixel_clamped(row + (i / 9) as i64, col + (i / 3 % 3) as i64).map(f64::from);
                sum += oklab(rgb)[i % 3] * f64::from(basis.weights()[(head * p + i) * d + j]);
            }
            let t = |i: usize| f64::from(basis.place_weights()[(head * 3 + i) * d + j]);
            let at = (head * n + token) * d + j;
            let term = place.x * t(0) + place.y * t(1) + t(2);
            assert!((f64::from(r[at]) - term).abs() < 1e-5, "R[{head}, {token}, {j}]");
            assert!(
                (f64::from(q[at]) - sum - term).abs() < 1e-4,
                "q[{head}, {token}, {j}]: {}, want {}",
                q[at],
                sum + term
            );
        }
    }
}

#[test]
fn fitting_twice_gives_the_same_numbers() {
    let (image, grid) = (picture(300, 280, 3), plan(300, 280, 8, 4, 100_000));
    assert!(grid.tokens() > 4096, "the subsample is used");
    let fit = || FeatureBasis::fit(&image, &grid, &FeatureOptions::default()).expect("features");
    assert_eq!(fit(), fit());
}

#[test]
fn constant_pictures_give_position_only_and_one_pixel_gives_zeros() {
    let flat = LinearImage::from_samples(20, 30, vec![0.3; 1800]).expect("matching length");
    let grid = plan(30, 20, 8, 4, 1000);
    let basis = FeatureBasis::fit(&flat, &grid, &FeatureOptions::default()).expect("features");
    assert!(basis.weights().iter().all(|&w| w == 0.0), "no weight on a picture without variance");
    let q = basis.project(&flat, &grid).expect("q");
    assert!(q.iter().all(|v| v.is_finite()) && q.iter().any(|&v| v != 0.0));
    let lambda = default_lambda(&q, [4, grid.tokens(), 32], Metric::L1, 0.1).expect("lambda");
    assert!(lambda.iter().all(|l| l.is_finite() && *l > 0.0));

    let one = LinearImage::from_samples(1, 1, vec![0.2, 0.4, 0.6]).expect("matching length");
    let grid = plan(1, 1, 8, 4, 1000);
    let basis = FeatureBasis::fit(&one, &grid, &FeatureOptions::default()).expect("features");
    let q = basis.project(&one, &grid).expect("q");
    assert!(q.iter().all(|&v| v == 0.0));
    assert_eq!(default_lambda(&q, [4, 1, 32], Metric::L1, 0.1), Ok(vec![1.0; 4]));
}

#[test]
fn default_lambda_gives_the_mean_kernel_value_asked_for() {
    let (image, grid) = (picture(60, 50, 4), plan(60, 50, 4, 4, 10_000));
    let options = FeatureOptions { heads: 3, head_dim: 8, ..FeatureOptions::default() };
    let q = FeatureBasis::fit(&image, &grid, &options).expect("fit").project(&image, &grid).expect("q");
    let n = grid.tokens();
    for metric in [Metric::L1, Metric::SquaredL2] {
        let lambda = default_lambda(&q, [3, n, 8], metric, 0.1).expect("lambda");
        for (head, lambda) in lambda.iter().enumerate() {
            let row = |i: usize| &q[(head * n + i) * 8..(head * n + i + 1) * 8];
            let mut sum = 0.0;
            for i in 0..n {
                for j in (0..n).filter(|&j| j != i) {
                    let differences = row(i).iter().zip(row(j)).map(|(a, b)| f64::from(*a) - f64::from(*b));
                    let distance: f64 = match metric {
                        Metric::L1 => differences.map(f64::abs).sum(),
                        Metric::SquaredL2 => differences.map(|v| v * v).sum(),
                    };
                    sum += (-distance / lambda).exp();
                }
            }
            let mean = sum / (n * (n - 1)) as f64;
            assert!((mean - 0.1).abs() < 1e-9, "{metric:?}, head {head}: {mean}");
        }
    }
}

#[test]
fn many_equal_tokens_do_not_drive_lambda_to_zero() {
    // Half of the tokens are equal, so a quarter of the pairs have kernel value 1 whatever λ is.
    let q: Vec<f32> = (0..100).map(|i| if i < 50 { 0.0 } else { i as f32 }).collect();
    let lambda = default_lambda(&q, [1, 100, 1], Metric::L1, 0.1).expect("lambda")[0];
    assert!(lambda > 1.0 && lambda < 50.0, "{lambda}");
}

#[test]
fn wrong_input_is_named() {
    let (image, grid) = (picture(20, 20, 5), plan(20, 20, 4, 4, 100));
    let fit = |options| FeatureBasis::fit(&image, &grid, &options).expect_err("refused");
    let base = FeatureOptions::default;
    assert_eq!(fit(FeatureOptions { heads: 0, ..base() }), FeatureError::Zero { what: "heads" });
    assert_eq!(fit(FeatureOptions { head_dim: 0, ..base() }), FeatureError::Zero { what: "head_dim" });
    assert_eq!(fit(FeatureOptions { recipes: vec![], ..base() }), FeatureError::Zero { what: "recipes" });
    let nothing = Recipe { lightness: 0.0, chroma: 0.0, blocks: 0.0, texture: 0.0, position: 0.0 };
    assert!(
        fit(FeatureOptions { recipes: vec![nothing], ..base() }).to_string().contains("sum of recipe shares")
    );
    let scale = fit(FeatureOptions { qk_scale: Some(f64::NAN), ..base() }).to_string();
    assert!(scale.contains("qk_scale is NaN"), "{scale}");
    let other = plan(21, 20, 4, 4, 100);
    let size = FeatureBasis::fit(&image, &other, &base()).expect_err("refused").to_string();
    assert!(size.contains("21x20") && size.contains("20x20"), "{size}");

    let lambda =
        |q: &[f32], mean| default_lambda(q, [1, 2, 1], Metric::L1, mean).expect_err("refused").to_string();
    assert!(lambda(&[0.0], 0.1).contains("wants 2 values"));
    assert!(lambda(&[0.0, f32::NAN], 0.1).contains("index 1"));
    assert!(lambda(&[0.0, 1.0], 1.0).contains("mean kernel value is 1"));
}
