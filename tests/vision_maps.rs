//! Default features tell the object under a click from the rest of the photograph.

mod common;

use common::{CAT, DRINK, Nystrom, Object, auc};
use glam::UVec2;
use wgattn::vision::bandwidth::{DEFAULT_MEAN_KERNEL, Metric, default_lambda};
use wgattn::vision::features::{FeatureBasis, FeatureOptions};
use wgattn::vision::grid::{DEFAULT_MAX_TOKENS, DEFAULT_PATCH, DEFAULT_STRIDE, TokenGrid};
use wgattn::vision::image::Photo;
use wgattn::vision::overlay::{Overlay, OverlayOptions, save_picture};

/// AUC at every click of the lattice.
fn measure(object: &Object, step: usize, margin: f64) -> Vec<(UVec2, f64)> {
    let photo =
        Photo::open(format!("{}/assets/{}", env!("CARGO_MANIFEST_DIR"), object.photo)).expect("asset");
    let size = photo.size();
    let grid = TokenGrid::plan(size, DEFAULT_PATCH, DEFAULT_STRIDE, DEFAULT_MAX_TOKENS).expect("a grid");
    let image = photo.working(grid.working_size()).expect("working picture");
    let options = FeatureOptions::default();
    let basis = FeatureBasis::fit(&image, &grid, &options).expect("features");
    let q = basis.project(&image, &grid).expect("q");
    let (heads, d) = (options.heads, options.head_dim);
    let lambda =
        default_lambda(&q, [heads, grid.tokens(), d], Metric::L1, DEFAULT_MEAN_KERNEL).expect("lambda");
    let nystrom = Nystrom::new(&q, [heads, grid.rows(), grid.cols(), d], &lambda);
    let inside: Vec<bool> =
        (0..grid.tokens()).map(|t| object.contains(grid.token_rect(t).expect("token").centre())).collect();
    let clicks = object.clicks(size.x, size.y, step, margin);
    if let Some(folder) = std::env::var_os("OVERLAY_DIR") {
        let folder = std::path::Path::new(&folder);
        let at = clicks[clicks.len() / 2];
        let map = nystrom.map(grid.token_at(at).expect("inside"));
        let overlay = Overlay::draw(&photo, &grid, &map, &[at], &OverlayOptions::default()).expect("overlay");
        overlay.save(folder.join(format!("{}_map.png", object.name))).expect("saved");
        let mask = image::DynamicImage::ImageLuma8(object.mask(size.x, size.y)).into_rgb8();
        save_picture(&mask, folder.join(format!("{}_mask.png", object.name))).expect("saved");
    }
    clicks.iter().map(|&at| (at, auc(&nystrom.map(grid.token_at(at).expect("inside")), &inside))).collect()
}

fn check(object: &Object, step: usize, margin: f64) {
    let measured = measure(object, step, margin);
    let poor: Vec<_> =
        measured.iter().filter(|(_, auc)| *auc < 0.9).map(|(at, v)| format!("{at} {v:.3}")).collect();
    let mut sorted: Vec<f64> = measured.iter().map(|m| m.1).collect();
    sorted.sort_by(f64::total_cmp);
    let (least, median) = (sorted[0], sorted[sorted.len() / 2]);
    println!(
        "{}: {} clicks, AUC least {least:.3}, median {median:.3}, below 0.9: {poor:?}\n  clicks: {:?}",
        object.name,
        measured.len(),
        measured.iter().map(|(at, v)| (at.x, at.y, (v * 1000.0).round() / 1000.0)).collect::<Vec<_>>()
    );
    assert!(measured.len() >= 20, "{} clicks", measured.len());
    assert!(poor.len() * 10 <= measured.len(), "{}: more than 10 % below 0.9: {poor:?}", object.name);
}

#[test]
fn clicks_on_the_cat_separate_the_cat() {
    check(&CAT, 16, 8.0);
}

#[test]
fn clicks_on_the_drink_separate_the_drink() {
    check(&DRINK, 12, 6.0);
}
