//! The main road, end to end: a photograph, a click, a map that knows the object, the same on every device.

mod common;
mod support;

use common::{CAT, DRINK, Object, auc};
use glam::UVec2;
use wgattn::attention::{FeatureMap, Normalisation};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::mask::MaskSpec;
use wgattn::vision::features::{FeatureBasis, FeatureOptions};
use wgattn::vision::image::Photo;
use wgattn::vision::scene::{
    MapKernel, MapPath, NoTwin, RowNormalisation, Scene, SceneOptions, fuse, relative_error, scaled_to_one,
};

fn photo(name: &str) -> Photo {
    Photo::open(format!("{}/assets/{name}", env!("CARGO_MANIFEST_DIR"))).expect("the asset opens")
}

/// One mask of each kind.
const MASKS: [&str; 5] = [
    "causal",
    "decay:0.99,both",
    "separable:rows=3,cols=6",
    "toeplitz:gauss,size=4,distance=l1,torus",
    "stencil:3x3,0/1/0/1/2/1/0/0.5/0",
];

/// The CPU reference and every adapter of this machine.
fn devices() -> Vec<(String, Box<dyn Backend>)> {
    let mut list: Vec<(String, Box<dyn Backend>)> = vec![("cpu".into(), Box::new(CpuBackend))];
    list.extend(support::backends().into_iter().map(|(n, b)| (n, Box::new(b) as Box<dyn Backend>)));
    list
}

/// The default map of each click on one device.
fn maps(backend: &dyn Backend, object: &Object, clicks: &[UVec2]) -> (Scene, Vec<Vec<f32>>) {
    let scene =
        Scene::new(&photo(object.photo), &SceneOptions::default(), clicks.len() as u32).expect("a scene");
    let mut program = scene.compile(backend).expect("the scene compiles");
    let rows = scene.rows(program.as_mut(), clicks).expect("the scene runs");
    let maps = rows.rows.iter().map(|heads| scaled_to_one(&fuse(heads, None))).collect();
    (scene, maps)
}

#[test]
fn a_click_inside_separates_the_object_on_every_device_and_devices_agree() {
    let cat = [UVec2::new(120, 120), UVec2::new(184, 168)];
    let drink = [UVec2::new(294, 150), UVec2::new(280, 170)];
    for (object, clicks) in [(&CAT, cat), (&DRINK, drink)] {
        let mut first: Option<Vec<Vec<f32>>> = None;
        for (name, backend) in devices() {
            let (scene, maps) = maps(backend.as_ref(), object, &clicks);
            let token = |t: usize| scene.grid.token_rect(t).expect("a token").centre();
            let inside: Vec<bool> = (0..scene.grid.tokens()).map(|t| object.contains(token(t))).collect();
            for (click, map) in clicks.iter().zip(&maps) {
                let found = auc(map, &inside);
                assert!(found >= 0.9, "{} at {click} on {name}: AUC {found:.3}", object.name);
            }
            let reference = first.get_or_insert_with(|| maps.clone());
            for (a, b) in reference.iter().flatten().zip(maps.iter().flatten()) {
                // Maps end at 1, so this is relative to the row's maximum.
                assert!((a - b).abs() <= 1e-3, "{} on {name}: {a} and {b}", object.name);
            }
        }
    }
}

#[test]
fn every_normalisation_and_kernel_draws_the_same_map_everywhere() {
    let photo = photo("chelsea.png");
    let click = [UVec2::new(120, 120)];
    let nystrom = [
        Normalisation::None,
        Normalisation::Row,
        Normalisation::Col,
        Normalisation::Cheap,
        Normalisation::Softpp,
    ];
    let mut settings: Vec<SceneOptions> = Vec::new();
    for kernel in [MapKernel::Laplacian, MapKernel::Gaussian] {
        for n in nystrom {
            settings.push(SceneOptions {
                kernel,
                normalisation: RowNormalisation::Map(n),
                ..Default::default()
            });
        }
    }
    let exact = SceneOptions { path: MapPath::Exact, ..Default::default() };
    settings.push(exact.clone());
    for n in [Normalisation::Row, Normalisation::Col] {
        settings.push(SceneOptions { normalisation: RowNormalisation::Map(n), ..exact.clone() });
    }
    settings.push(SceneOptions { normalisation: RowNormalisation::Sum, ..exact.clone() });
    settings.push(SceneOptions { kernel: MapKernel::Softmax, ..exact.clone() });
    for kernel in ["elu", "relu", "exp", "favor+"] {
        let map = kernel.parse().expect("a feature map");
        settings.push(SceneOptions { kernel: MapKernel::Feature(map), ..Default::default() });
    }
    for mask in MASKS {
        let mask: MaskSpec = mask.parse().expect("a mask");
        settings.push(SceneOptions { mask: mask.clone(), ..Default::default() });
        settings.push(SceneOptions { mask: mask.clone(), kernel: MapKernel::Softmax, ..Default::default() });
        settings.push(SceneOptions {
            mask,
            kernel: MapKernel::Feature(FeatureMap::Elu1),
            ..Default::default()
        });
    }
    for options in settings {
        // A coarser grid: what is compared is the road, not the picture.
        let options = SceneOptions { stride: 12, ..options };
        let scene = Scene::new(&photo, &options, 1).expect("a scene");
        let mut reference: Option<Vec<f32>> = None;
        for (name, backend) in devices() {
            let mut program = scene.compile(backend.as_ref()).expect("the scene compiles");
            let rows = scene.rows(program.as_mut(), &click).expect("the scene runs");
            let map = scaled_to_one(&fuse(&rows.rows[0], None));
            let reference = reference.get_or_insert_with(|| map.clone());
            let error = relative_error(&map, reference);
            // The Gaussian landmark matrix is the worst conditioned: 1e-3 is what the method's f32 tables leave.
            let SceneOptions { kernel, normalisation, mask, .. } = &options;
            assert!(error <= 1e-3, "{kernel:?} {normalisation:?} {mask} on {name}: {error:.1e}");
        }
    }
}

#[test]
fn clicking_elsewhere_needs_no_new_program_and_equals_a_new_one() {
    let picture = photo("chelsea.png");
    let options = SceneOptions { stride: 12, ..Default::default() };
    let scene = Scene::new(&picture, &options, 1).expect("a scene");
    for (_, backend) in devices() {
        let mut program = scene.compile(backend.as_ref()).expect("the scene compiles");
        scene.rows(program.as_mut(), &[UVec2::new(10, 10)]).expect("the scene runs");
        let moved = scene.rows(program.as_mut(), &[UVec2::new(300, 200)]).expect("the scene runs");
        let mut fresh = scene.compile(backend.as_ref()).expect("the scene compiles");
        let direct = scene.rows(fresh.as_mut(), &[UVec2::new(300, 200)]).expect("the scene runs");
        assert_eq!(moved.rows, direct.rows, "the same click gives the same bits");
    }
}

#[test]
fn strips_of_a_large_picture_equal_the_whole() {
    // 1200 x 900 tokens' worth of strips would take long; a wide picture of few rows already needs several.
    let width = 20_000;
    let pixels: Vec<u8> =
        (0..width * 64).flat_map(|i: u32| [(i % 251) as u8, (i / width * 3) as u8, (i % 89) as u8]).collect();
    let picture = image::RgbImage::from_raw(width, 64, pixels).expect("the size fits");
    let mut png = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut png, image::ImageFormat::Png).expect("the picture encodes");
    let photo = Photo::decode(png.get_ref(), "wide").expect("the picture decodes");
    let options = SceneOptions {
        patch: 4,
        stride: 4,
        max_tokens: 200_000,
        heads: 2,
        head_dim: 8,
        ..Default::default()
    };
    let scene = Scene::new(&photo, &options, 1).expect("a scene");
    assert!(
        scene.graph().passes().iter().filter(|p| p.kernel.name == "patchify").count() > 1,
        "several strips"
    );
    let mut results = Vec::new();
    for (name, backend) in devices().into_iter().take(2) {
        let mut program = scene.compile(backend.as_ref()).expect("the scene compiles");
        let rows = scene.rows(program.as_mut(), &[UVec2::new(9_000, 40)]).expect("the scene runs");
        results.push((name, fuse(&rows.rows[0], None)));
    }
    let error = relative_error(&results[1].1, &results[0].1);
    assert!(error <= 1e-3, "{}: {error:.1e}", results[1].0);
}

/// The exact rows beside whitened approximate ones are those of the definition, and with every token a landmark the
/// approximation becomes them.
#[test]
fn whitened_rows_are_compared_with_the_exact_ones_of_their_own_normalisation() {
    let picture = photo("chelsea.png");
    let click = [UVec2::new(120, 120), UVec2::new(300, 200)];
    for kernel in [MapKernel::Laplacian, MapKernel::Gaussian] {
        for n in [Normalisation::Row, Normalisation::Col] {
            let normalisation = RowNormalisation::Map(n);
            let options = SceneOptions { stride: 12, kernel, normalisation, ..Default::default() };
            let alone = Scene::new(&picture, &options, 2).expect("a scene");
            assert_eq!(alone.no_twin, Some(NoTwin::TooManyTokens { most: 0 }), "off unless asked for");
            let with = SceneOptions { whitened_twin_tokens: alone.grid.tokens(), ..options.clone() };
            let scene = Scene::new(&picture, &with, 2).expect("a scene");
            let exact = Scene::new(&picture, &SceneOptions { path: MapPath::Exact, ..options.clone() }, 2)
                .expect("a scene");
            for (name, backend) in devices() {
                let mut program = scene.compile(backend.as_ref()).expect("the scene compiles");
                let rows = scene.rows(program.as_mut(), &click).expect("the scene runs");
                let twin = rows.exact.expect("an exact row");
                let mut program = exact.compile(backend.as_ref()).expect("the scene compiles");
                let direct = exact.rows(program.as_mut(), &click).expect("the scene runs");
                assert!(direct.exact.is_none(), "exact rows need no twin");
                for ((row, twin), direct) in rows.rows.iter().zip(&twin).zip(&direct.rows) {
                    let (map, whole) = (fuse(row, None), fuse(twin, None));
                    assert_eq!(whole, fuse(direct, None), "{name}: the same rows by both roads");
                    // Measured 0.2 to 0.5 with 49 landmarks; a row of another normalisation is off by more than its size.
                    let error = relative_error(&map, &whole);
                    assert!(error > 1e-3 && error < 0.9, "{kernel:?} {n:?} on {name}: {error:.3}");
                }
            }
        }
    }
}

#[test]
fn the_next_picture_is_mapped_by_the_program_of_the_first() {
    // A red disc at some column, on a slope of blue.
    let disc = |centre: u32| {
        let colour = |x: u32, y: u32| match x.abs_diff(centre).pow(2) + y.abs_diff(48).pow(2) < 400 {
            true => [210, 40, 30],
            false => [20, 60, 90 + (x / 2) as u8],
        };
        let samples = (0..96 * 96).flat_map(|i| colour(i % 96, i / 96)).collect();
        Photo::from_rgb8("frame", 96, 96, samples).expect("a picture")
    };
    let (first, second) = (disc(30), disc(60));
    let click = [UVec2::new(45, 48)];
    let mut across: Option<Vec<f32>> = None;
    for (name, backend) in devices() {
        let mut scene = Scene::new(&first, &SceneOptions::default(), 1).expect("a scene");
        let mut program = scene.compile(backend.as_ref()).expect("the scene compiles");
        let mut map = |next: Option<&Photo>| {
            let program = program.as_mut();
            if let Some(photo) = next {
                scene.set_photo(program, photo).expect("a picture of the same size");
            }
            fuse(&scene.rows(program, &click).expect("the scene runs").rows[0], None)
        };
        let (before, between) = (map(None), map(Some(&second)));
        assert_eq!(before, map(Some(&first)), "{name}: back at the first picture");
        let change = relative_error(&between, &before);
        assert!(change > 0.1, "{name}: the map follows the picture, it changed by {change}");
        let reference = across.get_or_insert_with(|| between.clone());
        let gap = relative_error(&between, reference);
        assert!(gap < 1e-3, "{name}: {gap} away from the first device");
        let small = Photo::from_rgb8("small", 96, 95, vec![0; 96 * 95 * 3]).expect("a picture");
        let error = scene.set_photo(program.as_mut(), &small).expect_err("another size").to_string();
        assert!(error.contains("96x96") && error.contains("96x95"), "{error}");
    }
}

/// What a mask says of a query and a key, `[row, column]` each, on a grid of `rows` × `cols` tokens: written from the definitions.
fn weight(mask: &str, (rows, cols): (i64, i64), query: [i64; 2], key: [i64; 2]) -> f64 {
    let (down, right) = (key[0] - query[0], key[1] - query[1]);
    let raster = down * cols + right;
    let around = |offset: i64, side: i64| offset.rem_euclid(side).min((-offset).rem_euclid(side));
    match mask {
        "causal" => f64::from(u8::from(raster <= 0)),
        "decay:0.99,both" => 0.99_f64.powf(raster.abs() as f64),
        "separable:rows=3,cols=6" => (-(down.abs() as f64) / 3.0 - right.abs() as f64 / 6.0).exp(),
        "toeplitz:gauss,size=4,distance=l1,torus" => {
            let distance = (around(down, rows) + around(right, cols)) as f64;
            (-0.5 * (distance / 4.0).powi(2)).exp()
        }
        "stencil:3x3,0/1/0/1/2/1/0/0.5/0" => match (down, right) {
            (0, 0) => 2.0,
            (-1, 0) | (0, -1 | 1) => 1.0,
            (1, 0) => 0.5,
            _ => 0.0,
        },
        other => panic!("no definition of {other}"),
    }
}

/// Two clicks, one of them in a corner, where borders matter.
const CLICKS: [UVec2; 2] = [UVec2::new(184, 168), UVec2::new(3, 2)];

#[test]
fn a_mask_multiplies_the_rows_and_those_with_a_sum_are_divided_again() {
    let picture = photo("chelsea.png");
    let kernels = [
        (MapKernel::Feature(FeatureMap::Elu1), true),
        (MapKernel::Feature("favor+:features=32".parse().expect("a feature map")), true),
        (MapKernel::Softmax, true),
        (MapKernel::Laplacian, false),
    ];
    for mask in MASKS {
        for (kernel, sums) in kernels {
            let spec = mask.parse().expect("a mask");
            let options = SceneOptions { stride: 16, heads: 2, kernel, mask: spec, ..Default::default() };
            let scene = Scene::new(&picture, &options, 2).expect("a scene");
            let (rows, cols) = (scene.grid.rows() as i64, scene.grid.cols() as i64);
            for (name, backend) in devices() {
                let mut program = scene.compile(backend.as_ref()).expect("the scene compiles");
                let made = scene.rows(program.as_mut(), &CLICKS).expect("the scene runs");
                let bare = made.unmasked.expect("the rows without the mask");
                for (query, click) in CLICKS.iter().enumerate() {
                    let own = scene.grid.token_at(*click).expect("inside") as i64;
                    let at = |token: i64| [token / cols, token % cols];
                    for (head, bare) in bare[query].iter().enumerate() {
                        let weighed: Vec<f64> = (0..rows * cols)
                            .zip(bare)
                            .map(|(key, x)| weight(mask, (rows, cols), at(own), at(key)) * f64::from(*x))
                            .collect();
                        let total = if sums { weighed.iter().sum() } else { 1.0 };
                        let largest = weighed.iter().fold(0.0_f64, |m, x| m.max((x / total).abs()));
                        for (key, (got, wanted)) in made.rows[query][head].iter().zip(&weighed).enumerate() {
                            let gap = (f64::from(*got) - wanted / total).abs() / largest;
                            assert!(gap < 1e-5, "{mask} over {kernel:?} on {name}, key {key}: {gap:.1e}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn rows_of_feature_maps_are_their_definition_and_random_ones_come_with_the_softmax_they_stand_for() {
    let picture = photo("chelsea.png");
    // Short tokens: what random features are good at.
    let base = SceneOptions { stride: 16, heads: 2, head_dim: 4, ..Default::default() };
    let grid = Scene::new(&picture, &base, 1).expect("a scene").grid;
    let image = picture.working(grid.working_size()).expect("a picture");
    let fit = FeatureOptions { heads: 2, head_dim: 4, ..FeatureOptions::default() };
    let basis = FeatureBasis::fit(&image, &grid, &fit).expect("features");
    let tokens: Vec<usize> = (0..grid.tokens()).collect();
    // [head][token][d], with d^−½ in them; maps take them without.
    let features = basis.project_tokens(&image, &grid, &tokens).expect("features");
    let own = grid.token_at(CLICKS[0]).expect("inside");
    let token = |head: usize, t: usize| {
        (0..4).map(|i| 2.0 * f64::from(features[(head * tokens.len() + t) * 4 + i])).collect::<Vec<_>>()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let elu =
        |x: Vec<f64>| x.into_iter().map(|x| if x > 0.0 { x + 1.0 } else { x.exp() }).collect::<Vec<_>>();
    let favor = MapKernel::Feature("favor+:features=1024".parse().expect("a feature map"));
    for (name, backend) in devices() {
        let rows = |kernel: MapKernel| {
            let scene = Scene::new(&picture, &SceneOptions { kernel, ..base.clone() }, 1).expect("a scene");
            let mut program = scene.compile(backend.as_ref()).expect("the scene compiles");
            scene.rows(program.as_mut(), &CLICKS[..1]).expect("the scene runs")
        };
        let made = [rows(MapKernel::Feature(FeatureMap::Elu1)), rows(MapKernel::Softmax), rows(favor)];
        assert!(made[0].exact.is_none(), "ELU + 1 stands for itself");
        for head in 0..2 {
            let similar = |t: usize, kind: usize| match kind {
                0 => dot(&elu(token(head, own)), &elu(token(head, t))),
                _ => (dot(&token(head, own), &token(head, t)) / 2.0).exp(),
            };
            for (kind, made) in made[..2].iter().enumerate() {
                let wanted: Vec<f64> = tokens.iter().map(|&t| similar(t, kind)).collect();
                let total: f64 = wanted.iter().sum();
                let wanted: Vec<f32> = wanted.iter().map(|x| (x / total) as f32).collect();
                let error = relative_error(&made.rows[0][head], &wanted);
                assert!(error < 1e-4, "kind {kind} on {name}: {error:.1e}");
            }
        }
        let twin = made[2].exact.as_ref().expect("random features have a twin");
        assert!(relative_error(&twin[0][0], &made[1].rows[0][0]) < 1e-6, "the twin is softmax");
        // 1/√r is 3 %, times what long tokens do to it.
        let error = relative_error(&fuse(&made[2].rows[0], None), &fuse(&twin[0], None));
        assert!((1e-4..0.5).contains(&error), "{name}: {error}");
    }
}

#[test]
fn what_does_not_go_together_is_said() {
    let picture = photo("chelsea.png");
    let favor = MapKernel::Feature("favor+".parse().expect("a feature map"));
    let elu = MapKernel::Feature(FeatureMap::Elu1);
    let mask: MaskSpec = "causal".parse().expect("a mask");
    let row = RowNormalisation::Map(Normalisation::Row);
    let usual = SceneOptions::default();
    for (options, words) in [
        (SceneOptions { kernel: favor, path: MapPath::Exact, ..usual.clone() }, "use --kernel softmax"),
        (SceneOptions { kernel: elu, path: MapPath::Nystrom, ..usual.clone() }, "expected auto, got nystrom"),
        (SceneOptions { kernel: elu, normalisation: row, ..usual.clone() }, "normalisation of elu rows"),
        (SceneOptions { mask, normalisation: row, ..usual.clone() }, "normalisation of masked rows"),
    ] {
        let error = Scene::new(&picture, &options, 1).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}
