//! Small things that a person at the explorer runs into: names of pictures, thin ones, the tour's keys, what covers what.

mod explorer_driver;

use eframe::egui::{self, Key, Pos2, Rect, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use explorer_driver::{PATIENCE, click, drawn, explorer, file, open, open_scaled, settle};
use std::path::PathBuf;
use std::time::Instant;
use wgattn::explorer::tour::pages;
use wgattn::explorer::views::views;
use wgattn::explorer::{App, Options, WINDOW_SIZE};

fn opened(sources: &[String], views: &[&str], size: egui::Vec2) -> Harness<'static, App> {
    let views = views.iter().map(|view| (*view).to_string()).collect();
    let mut harness = open(Options { sources: sources.to_vec(), views, ..Options::default() }, size);
    settle(&mut harness);
    harness.run_steps(3);
    harness
}

/// Keeps a picture to be looked at, where that is asked for.
fn keep(harness: &mut Harness<'_, App>, name: &str) {
    if let Some(folder) = std::env::var_os("WGATTN_KEEP_IMAGES") {
        let picture = harness.render().expect("a picture of the window");
        picture.save(PathBuf::from(folder).join(format!("{name}.png"))).expect("kept to be looked at");
    }
}

#[test]
fn a_picture_of_a_folder_is_named_with_its_place() {
    let folder = file("shots");
    std::fs::create_dir_all(&folder).expect("a folder");
    for number in 1..=6 {
        std::fs::copy(drawn("shot.png", 64, 48), folder.join(format!("shot-{number}.png"))).expect("copied");
    }
    let mut harness = opened(&[folder.display().to_string()], &[], vec2(1200.0, 720.0));
    assert!(harness.query_by_label("shot-1.png").is_some() && harness.query_by_label("1 of 6").is_some());
    for _ in 0..2 {
        harness.key_press(Key::PageDown);
        harness.step();
    }
    let start = Instant::now();
    while harness.query_by_label("shot-3.png").is_none() {
        assert!(start.elapsed() < PATIENCE, "the third picture does not come");
        harness.step();
    }
    assert!(harness.query_by_label("3 of 6").is_some());
    assert_eq!(harness.state().title(), "shot-3.png (3 of 6) – wgattn");
    keep(&mut harness, "named");
}

#[test]
fn files_that_were_given_are_counted_too() {
    let mut harness = explorer(&[&drawn("first.png", 64, 48), &drawn("second.png", 64, 48)]);
    assert_eq!(harness.state().picture_place(), Some((1, 2)));
    harness.key_press(Key::PageDown);
    harness.step();
    let start = Instant::now();
    while harness.state().picture_name().as_deref() != Some("second.png") {
        assert!(start.elapsed() < PATIENCE, "the second picture does not come");
        harness.step();
    }
    assert_eq!(harness.state().picture_place(), Some((2, 2)));
    assert!(harness.query_by_label("2 of 2").is_some());
}

#[test]
fn thin_pictures_are_clicked_where_they_are_seen() {
    for (width, height) in [(4000, 3), (1, 5000)] {
        let mut harness =
            opened(&[drawn(&format!("thin-{width}.png"), width, height)], &[], vec2(1200.0, 720.0));
        // The views begin at (304, 49) and end above the status bar: three quarters along the picture.
        let middle = pos2(304.0 + 896.0 / 2.0, 49.0 + 640.0 / 2.0);
        let at = if width > height {
            pos2(304.0 + 896.0 * 0.75, middle.y)
        } else {
            pos2(middle.x, 49.0 + 640.0 * 0.75)
        };
        click(&mut harness, at, egui::PointerButton::Primary);
        settle(&mut harness);
        let query = harness.state().document().query();
        let place = query.as_vec2() / glam::vec2(width as f32, height as f32);
        let along = if width > height { place.x } else { place.y };
        assert!((along - 0.75).abs() < 0.01, "{width} × {height}: {query}");
        keep(&mut harness, &format!("thin-{width}"));
    }
}

fn probe(harness: &Harness<'_, App>) -> Option<Rect> {
    egui::AreaState::load(&harness.ctx, egui::Id::unique("probe")).map(|area| area.rect())
}

#[test]
fn the_numbers_under_the_pointer_cover_no_figures() {
    let mut harness = opened(&[drawn("square.png", 160, 150)], &["compare"], vec2(1200.0, 720.0));
    let figures: Vec<Rect> = ["Relative error", "Largest deviation", "Mean deviation"]
        .iter()
        .map(|name| harness.get_by_label(name).rect())
        .collect();
    for at in
        [pos2(400.0, 150.0), pos2(680.0, 330.0), pos2(900.0, 200.0), pos2(500.0, 500.0), pos2(680.0, 660.0)]
    {
        harness.hover_at(at);
        harness.run_steps(3);
        assert!(harness.query_by_label_contains("Pixel").is_some(), "the probe is there at {at:?}");
        let probe = probe(&harness).expect("its place");
        assert!(!probe.contains(at), "{at:?} is under the probe at {probe:?}");
        for figure in &figures {
            assert!(!probe.intersects(*figure), "{at:?}: {probe:?} covers {figure:?}");
        }
    }
    keep(&mut harness, "probe-compare");
}

#[test]
fn the_numbers_under_the_pointer_leave_the_line_about_the_mask_alone() {
    let mut harness = opened(&[drawn("masked.png", 160, 120)], &["mask-topology"], vec2(1200.0, 720.0));
    harness.hover_at(pos2(500.0, 400.0));
    harness.run_steps(3);
    let line = harness.get_by_label_contains("Every query sees all").rect();
    let probe = probe(&harness).expect("its place");
    assert!(!probe.intersects(line), "{probe:?} covers {line:?}");
    keep(&mut harness, "probe-mask");
}

#[test]
fn the_tour_is_turned_and_closed_by_keys() {
    let sources = [drawn("tour-1.png", 64, 48), drawn("tour-2.png", 64, 48)];
    let mut harness = opened(&sources, &[], vec2(1200.0, 720.0));
    let press = |harness: &mut Harness<'_, App>, key| {
        harness.key_press(key);
        harness.run_steps(2);
    };
    press(&mut harness, Key::F1);
    let count = pages(&views()).len();
    let page = |harness: &Harness<'_, App>, number: usize| {
        harness.query_by_label(&format!("{number} of {count}")).is_some()
    };
    assert!(page(&harness, 1));
    for (key, number) in [
        (Key::ArrowRight, 2),
        (Key::PageDown, 3),
        (Key::ArrowLeft, 2),
        (Key::ArrowDown, 3),
        (Key::PageUp, 2),
        (Key::ArrowUp, 1),
        (Key::ArrowUp, 1),
    ] {
        press(&mut harness, key);
        assert!(page(&harness, number), "{key:?} leads to page {number}");
    }
    assert_eq!(harness.state().picture_place(), Some((1, 2)), "pictures are not turned meanwhile");
    keep(&mut harness, "tour");
    press(&mut harness, Key::Escape);
    assert!(harness.query_by_label("Guided tour").is_none(), "Esc closes it");
}

#[test]
fn a_mask_in_force_is_told_in_the_status_bar() {
    let mut harness = opened(&[drawn("told.png", 160, 120)], &["mask-topology"], vec2(1280.0, 800.0));
    assert!(harness.query_by_label_contains("mask hides").is_none());
    harness.get_by_label("Brush").click();
    harness.run_steps(2);
    let press = |pos: Pos2, pressed| egui::Event::PointerButton {
        pos,
        button: egui::PointerButton::Primary,
        pressed,
        modifiers: egui::Modifiers::NONE,
    };
    let (from, to) = (pos2(420.0, 300.0), pos2(600.0, 420.0));
    for event in [
        egui::Event::PointerMoved(from),
        press(from, true),
        egui::Event::PointerMoved(from + (to - from) / 2.0),
        egui::Event::PointerMoved(to),
        press(to, false),
    ] {
        harness.event(event);
        harness.step();
    }
    settle(&mut harness);
    harness.run_steps(2);
    let hidden = harness.state().snapshot().and_then(|s| s.hidden_keys).expect("a mask is in force");
    assert!(hidden > 0);
    let text = format!("mask hides {hidden} of 300 tokens");
    assert!(harness.query_by_label(&text).is_some(), "{text}");
    keep(&mut harness, "mask-told");
}

#[test]
fn a_new_window_fits_a_small_screen_with_its_status_bar() {
    let [width, height] = WINDOW_SIZE;
    assert!(width <= 1264.0 && height <= 730.0, "with a title bar and a panel on 1280 × 800");
    for size in [vec2(width, height), vec2(640.0, 420.0)] {
        let mut harness = opened(&[drawn("fits.png", 160, 120)], &[], size);
        let last = harness.query_by_label_contains("latency").map(|node| node.rect());
        if size.x > 1000.0 {
            assert!(last.is_some_and(|rect| rect.bottom() <= size.y), "{last:?}");
        }
        keep(&mut harness, &format!("fits-{}", size.x));
    }
}

#[test]
fn the_schedule_scrolls_in_a_narrow_tile() {
    let views = ["attention", "compare", "schedule", "distances"];
    for scale in [1.0, 2.0] {
        for theme in [egui::Theme::Dark, egui::Theme::Light] {
            let options = Options {
                sources: vec![drawn("tiles.png", 160, 120)],
                views: views.map(String::from).to_vec(),
                ..Options::default()
            };
            let mut harness = open_scaled(options, vec2(1280.0, 800.0), scale);
            harness.ctx.set_theme(theme);
            settle(&mut harness);
            harness.run_steps(4);
            // Everything in its bar lies inside of the tile, whose left and right ends are about here.
            for name in ["Passes", "Time", "By first use", "Memory slots", "Inputs and constants", "Filter"] {
                let node = harness.query_all_by_label_contains(name).last();
                if let Some(rect) = node.map(|node| node.rect()) {
                    assert!(rect.left() >= 792.0 && rect.right() <= 1040.0, "{name}: {rect:?}");
                }
            }
            keep(&mut harness, &format!("tiles-{theme:?}-{scale}"));
        }
    }
}
