//! What the window says where the map in sight is not that of the marker, is not there at all, or is still being made.

mod explorer_driver;

use eframe::egui::{PointerButton, Pos2, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use explorer_driver::{PATIENCE, click, drawn, explorer, file, open, settle};
use glam::DVec2;
use std::time::{Duration, Instant};
use wgattn::explorer::mask::Paint;
use wgattn::explorer::snapshot::LayerId;
use wgattn::explorer::views::views;
use wgattn::explorer::{App, Options};

/// The middle of the views: over the picture.
const MIDDLE: Pos2 = pos2(790.0, 410.0);

/// Keeps a picture where `WGATTN_SHOTS` names a folder.
fn shot(harness: &mut Harness<'_, App>, name: &str) {
    let picture = harness.render().expect("a frame");
    if let Ok(folder) = std::env::var("WGATTN_SHOTS") {
        picture.save(format!("{folder}/signs-{name}.png")).expect("the folder takes pictures");
    }
}

#[test]
fn where_the_mask_hides_everything_there_is_no_map_and_nothing_to_export() {
    let mut harness = explorer(&[&drawn("hidden.png", 160, 120)]);
    let size = DVec2::new(160.0, 120.0);
    let mask = &mut harness.state_mut().document_mut().mask;
    assert!(mask.rectangle(size.as_uvec2(), DVec2::ZERO, size, Paint::Hidden));
    settle(&mut harness);
    let snapshot = harness.state().snapshot().expect("an answer");
    assert!(snapshot.sees_nothing());
    assert!(snapshot.layer(LayerId::Map).is_none() && snapshot.row.fused.is_empty(), "no former map");
    assert!(harness.state().failure().is_some_and(|why| why.contains("hides every token")));
    harness.hover_at(MIDDLE);
    harness.run_steps(3);
    assert!(harness.query_by_label_contains("Hidden from the query").is_some(), "the probe");
    shot(&mut harness, "all-hidden");
    let snapshot = harness.state().snapshot().expect("an answer");
    for name in ["hidden.npy", "hidden.npz", "hidden-map.png"] {
        let refused = wgattn::explorer::export::map(&file(name), snapshot).expect_err("there is no row");
        assert!(refused.to_string().contains("hides every token"), "{refused}");
        assert!(!file(name).exists());
    }
    assert!(wgattn::explorer::export::csv(&file("hidden.csv"), snapshot).is_err());
    for view in views() {
        assert!(harness.state_mut().open_view(view.id()));
        settle(&mut harness);
        shot(&mut harness, &format!("all-hidden-{}", view.id()));
    }
    assert!(harness.state_mut().open_view("attention"));
    harness.state_mut().document_mut().mask.clear();
    settle(&mut harness);
    assert!(harness.state().failure().is_none());
    assert!(harness.state().snapshot().is_some_and(|s| s.layer(LayerId::Map).is_some()), "the map is back");
}

#[test]
fn a_map_of_the_former_query_is_told_as_such() {
    let mut harness = explorer(&[&drawn("former.png", 640, 480)]);
    harness.hover_at(MIDDLE);
    harness.run_steps(3);
    assert!(harness.query_by_label_contains("Of the former query").is_none());
    let compute = &mut harness.state_mut().document_mut().settings.compute;
    (compute.landmark_side, compute.lambda, compute.epsilon) = (30, Some(1e6), 1e-30);
    harness.run_steps(2);
    click(&mut harness, MIDDLE + vec2(150.0, 90.0), PointerButton::Primary);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) && !harness.state().is_settled() {
        std::thread::sleep(Duration::from_millis(50));
        harness.step();
    }
    if harness.state().is_settled() {
        // A device this quick leaves nothing to tell.
        return;
    }
    shot(&mut harness, "former");
    assert!(harness.query_by_label_contains("Of the former query").is_some());
    assert!(harness.query_by_label_contains("left").is_some(), "how long it still takes");
    // What is cancelled does not come: the sign stays.
    harness.get_by_label("Cancel").click();
    settle(&mut harness);
    harness.hover_at(MIDDLE);
    harness.run_steps(3);
    assert!(harness.query_by_label_contains("Of the former query").is_some());
}

#[test]
fn a_sweep_tells_how_far_it_is_and_can_be_cancelled() {
    let mut harness = explorer(&[&drawn("slope.png", 64, 48)]);
    let (path, before) = (file("cancelled.gif"), harness.state().document().clone());
    harness.state_mut().answer_dialogs_with([path.clone()]);
    harness.get_by_label("File").click();
    harness.run_steps(2);
    harness.get_by_label_contains("Export").click();
    harness.run_steps(4);
    harness.get_by_label_contains("sweep").click();
    let start = Instant::now();
    while harness.query_by_label_contains("capturing").is_none() {
        assert!(start.elapsed() < PATIENCE, "nothing is told");
        harness.step();
        harness.render().expect("a frame");
    }
    harness.run_steps(3);
    shot(&mut harness, "sweep");
    harness.get_by_label("Cancel").click();
    settle(&mut harness);
    assert!(harness.query_by_label_contains("capturing").is_none());
    assert_eq!(*harness.state().document(), before, "λ is what it was");
    assert!(!path.exists());
}

#[test]
fn a_photographed_window_shows_no_numbers_under_the_pointer() {
    let options = Options {
        sources: vec![drawn("photographed.png", 160, 120)],
        screenshot: Some(file("photographed-window.png")),
        ..Options::default()
    };
    let mut harness = open(options, vec2(1280.0, 800.0));
    harness.hover_at(MIDDLE);
    settle(&mut harness);
    harness.hover_at(MIDDLE);
    harness.run_steps(3);
    assert!(harness.query_by_label_contains("of the row").is_none(), "the probe");
}

#[test]
fn few_tokens_are_told_to_give_exact_rows() {
    let mut harness = explorer(&[&drawn("few.png", 64, 48)]);
    assert!(harness.state().snapshot().is_some_and(|s| s.exact));
    shot(&mut harness, "few");
    assert!(harness.query_by_label_contains("at most twice as many tokens as the 49 landmarks").is_some());
    assert!(harness.query_by_label_contains("49 landmarks of").is_none());
}

/// What was found before is drawn again with every answer, the difference from the reference too.
#[test]
fn the_picture_of_the_difference_stays_when_colours_change() {
    let mut harness = explorer(&[&drawn("difference.png", 120, 90)]);
    assert!(harness.state_mut().open_view("parity"), "there is such a view");
    let difference = |harness: &mut Harness<'_, App>| {
        settle(harness);
        harness.state().snapshot().is_some_and(|s| s.layer(LayerId::Parity).is_some())
    };
    assert!(difference(&mut harness), "it is drawn when it was found");
    harness.state_mut().document_mut().settings.look.smooth ^= true;
    assert!(difference(&mut harness), "it is drawn again");
    harness.state_mut().document_mut().settings.look.opacity = 0.5;
    assert!(difference(&mut harness), "and again");
}
