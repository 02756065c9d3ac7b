//! Overlays: colours, marks, numbers, saving.

use std::io::Cursor;

use glam::UVec2;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use wgattn::vision::colour::{oklab, srgb_to_linear};
use wgattn::vision::grid::TokenGrid;
use wgattn::vision::image::Photo;
use wgattn::vision::overlay::{
    NOT_FINITE_COLOUR, Overlay, OverlayError, OverlayOptions, Palette, save_picture,
};

fn photo(width: u32, height: u32, colour: [u8; 3]) -> Photo {
    let mut bytes = Vec::new();
    let picture = RgbImage::from_pixel(width, height, Rgb(colour));
    DynamicImage::from(picture).write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).expect("encodes");
    Photo::decode(&bytes, "flat.png").expect("decodes")
}

fn lab(colour: [u8; 3]) -> [f64; 3] {
    oklab(colour.map(|c| srgb_to_linear(f64::from(c) / 255.0)))
}

fn draw(photo: &Photo, grid: &TokenGrid, map: &[f32], at: &[UVec2]) -> Overlay {
    Overlay::draw(photo, grid, map, at, &OverlayOptions::default()).expect("drawn")
}

#[test]
fn sequential_map_climbs_evenly_and_diverging_map_is_symmetric_in_lightness() {
    let lightness = |palette: Palette, t: f64| lab(palette.colour(t))[0];
    for i in 0..100 {
        let (a, b) = (f64::from(i) / 100.0, f64::from(i + 1) / 100.0);
        let step = lightness(Palette::Sequential, b) - lightness(Palette::Sequential, a);
        // 0.007 per step, ± rounding to 8 bits.
        assert!((step - 0.007).abs() < 0.004, "step {i}: {step}");
        let difference = lightness(Palette::Diverging, a) - lightness(Palette::Diverging, 1.0 - a);
        assert!(difference.abs() < 0.01, "t {a}: {difference}");
    }
    let white = Palette::Diverging.colour(0.5);
    assert!(white.iter().all(|&c| c > 240), "{white:?}");
    let (blue, red) = (Palette::Diverging.colour(0.0), Palette::Diverging.colour(1.0));
    assert!(blue[2] > blue[0] + 100 && red[0] > red[2] + 100, "{blue:?} {red:?}");
}

#[test]
fn colour_of_missing_values_is_far_from_both_maps() {
    let missing = lab(NOT_FINITE_COLOUR);
    for palette in [Palette::Sequential, Palette::Diverging] {
        for i in 0..=1000 {
            let other = lab(palette.colour(f64::from(i) / 1000.0));
            let distance = missing.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            assert!(distance > 0.15, "{palette:?} at {i}: {distance}");
        }
    }
}

#[test]
fn negative_values_that_matter_choose_the_diverging_map() {
    let photo = photo(400, 400, [90; 3]);
    let grid = TokenGrid::plan(photo.size(), 8, 200, 100).expect("grid");
    let palette = |map: [f32; 4]| {
        let overlay = draw(&photo, &grid, &map, &[]);
        (overlay.palette, overlay.range, overlay.notices.len())
    };
    assert_eq!(palette([0.0, 0.5, 1.0, 0.2]), (Palette::Sequential, (0.0, 1.0), 0));
    assert_eq!(palette([-0.5, 0.5, 0.25, 0.2]), (Palette::Diverging, (-0.5, 0.5), 0));
    // A little below zero: not worth another map, but said.
    assert_eq!(palette([-0.01, 0.5, 1.0, 0.2]), (Palette::Sequential, (0.0, 1.0), 1));
    assert_eq!(palette([0.0; 4]), (Palette::Sequential, (0.0, 1.0), 0));
    assert_eq!(palette([-1.0; 4]), (Palette::Diverging, (-1.0, 1.0), 0));
}

#[test]
fn map_is_bilinear_between_token_centres_and_flat_beyond_the_outer_ones() {
    let photo = photo(400, 400, [0; 3]);
    let grid = TokenGrid::plan(photo.size(), 8, 200, 100).expect("grid");
    let options = OverlayOptions { opacity: 1.0, ..OverlayOptions::default() };
    let overlay = Overlay::draw(&photo, &grid, &[0.0, 1.0, 0.0, 1.0], &[], &options).expect("drawn");
    for x in [0u32, 50, 99, 150, 200, 250, 301, 399] {
        let t = ((f64::from(x) + 0.5 - 100.0) / 200.0).clamp(0.0, 1.0);
        let want = Palette::Sequential.colour((t * 1024.0).round() / 1024.0);
        assert_eq!(overlay.picture.get_pixel(x, 77).0, want, "column {x}");
    }
}

#[test]
fn missing_values_are_magenta_and_counted() {
    let photo = photo(400, 400, [90; 3]);
    let grid = TokenGrid::plan(photo.size(), 8, 100, 100).expect("grid");
    let mut map = [0.5f32; 16];
    (map[5], map[10]) = (f32::NAN, f32::INFINITY);
    let overlay = draw(&photo, &grid, &map, &[]);
    assert!(overlay.notices[0].contains("2 of 16 map values are not finite"), "{:?}", overlay.notices);
    assert_eq!(overlay.picture.get_pixel(150, 150).0, NOT_FINITE_COLOUR);
    assert_eq!(overlay.picture.get_pixel(250, 250).0, NOT_FINITE_COLOUR);
    assert_ne!(overlay.picture.get_pixel(50, 50).0, NOT_FINITE_COLOUR);
    let nothing = draw(&photo, &grid, &[f32::NAN; 16], &[]);
    assert_eq!(nothing.range, (0.0, 1.0));
}

#[test]
fn query_mark_shows_on_black_white_and_every_map_colour() {
    for base in [[0; 3], [255; 3], [128, 90, 60]] {
        for value in [0.0f32, 0.5, 1.0] {
            let photo = photo(400, 400, base);
            let grid = TokenGrid::plan(photo.size(), 8, 200, 100).expect("grid");
            let map = [value, value, value, 1.0];
            let (plain, marked) =
                (draw(&photo, &grid, &map, &[]), draw(&photo, &grid, &map, &[UVec2::new(90, 90)]));
            let (mut light, mut dark) = (0, 0);
            for (a, b) in plain.picture.pixels().zip(marked.picture.pixels()) {
                let contrast = lab(b.0)[0] - lab(a.0)[0];
                light += u32::from(contrast > 0.25);
                dark += u32::from(contrast < -0.2);
            }
            assert!(light.max(dark) > 40, "{base:?} under {value}: {light} lighter, {dark} darker pixels");
        }
    }
}

#[test]
fn odd_sizes_are_drawn() {
    for (width, height) in [(1, 1), (1, 50), (50, 1), (63, 3), (64, 3), (65, 3), (4097, 3), (3, 5000)] {
        let photo = photo(width, height, [200, 100, 50]);
        let grid = TokenGrid::plan(photo.size(), 8, 4, 16_384).expect("grid");
        let map: Vec<f32> = (0..grid.tokens()).map(|t| t as f32).collect();
        let overlay = draw(&photo, &grid, &map, &[UVec2::ZERO, UVec2::new(width - 1, height - 1)]);
        assert!(overlay.picture.height() >= 100, "room for the numbers: {}", overlay.picture.height());
        assert_eq!(overlay.notices.iter().any(|n| n.contains("shown at 1:")), width.max(height) > 2048);
    }
}

#[test]
fn wrong_input_is_named() {
    let photo = photo(40, 30, [90; 3]);
    let grid = TokenGrid::plan(photo.size(), 8, 10, 100).expect("grid");
    let draw = |grid: &TokenGrid, map: &[f32], at: &[UVec2], options: &OverlayOptions| {
        Overlay::draw(&photo, grid, map, at, options).expect_err("refused").to_string()
    };
    let options = OverlayOptions::default();
    assert!(draw(&grid, &[0.0; 11], &[], &options).contains("[3, 4], 12 values, got 11"));
    assert!(draw(&grid, &[0.0; 12], &[UVec2::new(40, 0)], &options).contains("pixel (40, 0)"));
    let other = TokenGrid::plan(UVec2::new(41, 30), 8, 10, 100).expect("grid");
    assert!(draw(&other, &[0.0; 15], &[], &options).contains("41x30"));
    let opaque = OverlayOptions { opacity: 1.5, ..options.clone() };
    assert!(draw(&grid, &[0.0; 12], &[], &opaque).contains("opacity is 1.5"));
    let range = OverlayOptions { range: Some((1.0, 1.0)), ..options };
    assert!(draw(&grid, &[0.0; 12], &[], &range).contains("value range"));
}

#[test]
fn saving_replaces_whole_files_and_leaves_nothing_behind_when_it_fails() {
    let folder = std::env::temp_dir().join(format!("overlay-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a scratch folder");
    let picture = RgbImage::from_fn(50, 3, |x, y| Rgb([x as u8, y as u8, 7]));
    let path = folder.join("map.png");
    std::fs::write(&path, b"older").expect("an older file");
    save_picture(&picture, &path).expect("saved");
    assert_eq!(image::open(&path).expect("a picture").into_rgb8(), picture);

    std::fs::create_dir(folder.join("taken.png")).expect("a folder in the way");
    for (name, words) in [
        ("taken.png", "it is a folder"),
        ("none/map.png", "cannot save"),
        ("map.txt", "suffix"),
        ("map", "suffix"),
    ] {
        let error = save_picture(&picture, folder.join(name)).expect_err("refused");
        assert!(error.to_string().contains(words) && error.to_string().contains(name), "{error}");
        assert!(matches!(error, OverlayError::Write { .. } | OverlayError::Suffix { .. }));
    }
    let left: Vec<_> =
        std::fs::read_dir(&folder).expect("listed").map(|e| e.expect("entry").file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn a_mark_does_not_hide_the_little_that_there_is_to_see() {
    // 5 × 5 of 64 × 64 tokens of 8 pixels, and many.
    let photo = photo(512, 512, [90; 3]);
    let grid = TokenGrid::plan(photo.size(), 8, 8, 4096).expect("grid");
    let query = UVec2::new(20 * 8 + 4, 30 * 8 + 4);
    let disc = |radius: i64| -> Vec<f32> {
        let near = |t: i64| ((t % 64) - 20).abs().max((t / 64 - 30).abs()) <= radius;
        (0..4096).map(|t| if near(t) { 1.0 } else { 0.0 }).collect()
    };
    let changed = |radius: i64| {
        let map = disc(radius);
        let (plain, marked) = (draw(&photo, &grid, &map, &[]), draw(&photo, &grid, &map, &[query]));
        let inside = |x: u32, y: u32| {
            let far =
                (i64::from(x) - i64::from(query.x)).abs().max((i64::from(y) - i64::from(query.y)).abs());
            far <= 8 * radius + 4
        };
        let mut count = [0, 0];
        for (x, y, pixel) in marked.picture.enumerate_pixels() {
            if pixel != plain.picture.get_pixel(x, y) {
                count[usize::from(inside(x, y))] += 1;
            }
        }
        count
    };
    let [outside, inside] = changed(2);
    assert!(
        inside == 0 && outside > 100,
        "{inside} pixels of the mask are hidden, {outside} beside it are marked"
    );
    // Where there is more to see the mark stays on its pixel.
    let [outside, inside] = changed(20);
    assert!(inside > 100 && outside == 0, "{inside} {outside}");
}
