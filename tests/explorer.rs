//! The explorer as a whole, driven as a user would: the app in a test harness, on this machine's adapter.

mod explorer_driver;

use eframe::egui::{self, Key, Modifiers, PointerButton, Pos2, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use explorer_driver::{PATIENCE, click, drawn, explorer, file, open, open_scaled, settle};
use glam::UVec2;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wgattn::explorer::document::Document;
use wgattn::explorer::relative_mask::Kind;
use wgattn::explorer::settings::{Device, Fusion, RowForm, Similarity};
use wgattn::explorer::snapshot::LayerId;
use wgattn::explorer::views::views;
use wgattn::explorer::{App, Options};
use wgattn::mask::MaskSpec;
use wgattn::vision::scene::relative_error;

fn drag(harness: &mut Harness<'_, App>, from: Pos2, to: Pos2) {
    let press = |pos, pressed| egui::Event::PointerButton {
        pos,
        button: PointerButton::Primary,
        pressed,
        modifiers: Modifiers::NONE,
    };
    harness.event(egui::Event::PointerMoved(from));
    harness.step();
    harness.event(press(from, true));
    harness.step();
    for part in 1..=8 {
        harness.event(egui::Event::PointerMoved(from + (to - from) * (part as f32 / 8.0)));
        harness.step();
    }
    harness.event(press(to, false));
    harness.step();
}

/// The middle of the views: over the picture.
const MIDDLE: Pos2 = pos2(790.0, 410.0);

#[test]
fn a_map_appears_by_itself_and_rests() {
    let mut harness = explorer(&[]);
    let app = harness.state();
    let snapshot = app.snapshot().expect("a map");
    assert_eq!(snapshot.landmarks, 49);
    assert!(snapshot.layer(LayerId::Map).is_some(), "a picture of it");
    assert!(app.failure().is_none());
    assert!(snapshot.row.fused.iter().all(|x| x.is_finite()));
    let (request, frames) = (snapshot.request, app.frames());
    // Nothing changes, so nothing is asked again and no frame is wanted at once.
    harness.run();
    assert_eq!(harness.state().snapshot().map(|s| s.request), Some(request));
    assert!(harness.state().frames() <= frames + 4, "the window rests");
}

#[test]
fn clicking_moves_the_query_and_resting_tells_numbers() {
    let mut harness = explorer(&[]);
    let before = harness.state().snapshot().expect("a map").query;
    click(&mut harness, MIDDLE + vec2(150.0, 90.0), PointerButton::Primary);
    settle(&mut harness);
    let snapshot = harness.state().snapshot().expect("a map");
    assert_ne!(snapshot.query, before);
    let largest = snapshot.exact_row.as_ref().expect("bare exact rows cost little");
    let top = (0..largest.fused.len()).max_by(|a, b| largest.fused[*a].total_cmp(&largest.fused[*b]));
    assert_eq!(top, Some(snapshot.query_token), "a token is most like itself");
    harness.hover_at(MIDDLE);
    harness.run_steps(3);
    assert!(harness.query_by_label_contains("tokens from the query").is_some(), "the probe");
}

#[test]
fn panning_and_zooming_move_the_picture_and_not_the_query() {
    let mut harness = explorer(&[]);
    let query = harness.state().document().query();
    drag(&mut harness, MIDDLE, MIDDLE + vec2(60.0, 40.0));
    harness.event(egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        delta: vec2(0.0, 120.0),
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
        modifiers: Modifiers::NONE,
    });
    harness.run_steps(8);
    assert_eq!(harness.state().document().query(), query);
    harness.key_press(Key::F);
    harness.run_steps(2);
}

#[test]
fn every_setting_gives_a_map_and_undo_goes_back() {
    let mut harness = explorer(&[&drawn("settings.png", 96, 72)]);
    let start = harness.state().document().settings.clone();
    let forms = [RowForm::None, RowForm::Row, RowForm::Col, RowForm::Cheap, RowForm::Softpp];
    for similarity in [Similarity::Laplacian, Similarity::Gaussian, Similarity::Softmax] {
        for form in forms.into_iter().filter(|f| similarity != Similarity::Softmax || *f == RowForm::None) {
            let compute = &mut harness.state_mut().document_mut().settings.compute;
            (compute.similarity, compute.form, compute.stride, compute.landmark_side) =
                (similarity, form, 4, 5);
            settle(&mut harness);
            let app = harness.state();
            assert!(app.failure().is_none(), "{similarity:?} {form:?}: {:?}", app.failure());
            let snapshot = app.snapshot().expect("a map");
            assert_eq!((snapshot.compute.similarity, snapshot.compute.form), (similarity, form));
            assert!(snapshot.row.fused.iter().all(|x| x.is_finite()), "{similarity:?} {form:?}");
        }
    }
    for _ in 0..40 {
        harness.key_press_modifiers(Modifiers::COMMAND, Key::Z);
        harness.step();
    }
    assert_eq!(harness.state().document().settings, start, "undo leads back to the start");
    assert!(harness.state().can_redo());
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Y);
    harness.step();
    assert_ne!(harness.state().document().settings, start, "redo goes forward again");
}

#[test]
fn what_cannot_be_is_told_and_the_last_map_stays() {
    let mut harness = explorer(&[&drawn("small.png", 64, 48)]);
    let kept = harness.state().snapshot().expect("a map").request;
    harness.state_mut().document_mut().settings.compute.lambda = Some(-1.0);
    settle(&mut harness);
    let why = harness.state().failure().expect("a reason").to_string();
    assert!(why.contains("lambda") && !why.contains('\n'), "{why}");
    assert_eq!(harness.state().snapshot().map(|s| s.request), Some(kept));
    harness.state_mut().document_mut().settings.compute.lambda = Some(2.0);
    settle(&mut harness);
    assert!(harness.state().failure().is_none(), "and it goes away");
}

#[test]
fn the_cpu_reference_and_other_adapters_find_the_same_map() {
    let mut harness = explorer(&[&drawn("devices.png", 120, 90)]);
    harness.state_mut().document_mut().settings.compute.stride = 4;
    settle(&mut harness);
    let here = harness.state().snapshot().expect("a map").row.fused.clone();
    let mut others = vec!["cpu".to_string()];
    others.extend((0..wgattn::backend::wgpu::adapters().len()).map(|i| i.to_string()));
    for name in others {
        harness.state_mut().document_mut().settings.device = Device::Named(name.clone());
        settle(&mut harness);
        let app = harness.state();
        assert!(app.failure().is_none(), "{name}: {:?}", app.failure());
        let snapshot = app.snapshot().expect("a map");
        assert!(!snapshot.on_window_device);
        let error = relative_error(&snapshot.row.fused, &here);
        assert!(error < 1e-3, "{name}: {error:.1e}");
        assert!(snapshot.layer(LayerId::Map).is_some(), "{name} is drawn, too");
    }
}

#[test]
fn cuda_is_switched_to_and_back_at_run_time() {
    let mut harness = explorer(&[&drawn("cuda.png", 96, 64)]);
    harness.state_mut().document_mut().settings.compute.stride = 4;
    settle(&mut harness);
    let here = harness.state().snapshot().expect("a map").row.fused.clone();
    // The host stands in for a card: the same sources and the same way of results to the window.
    for (device, on_window) in [(Device::Named("cuda:host".into()), false), (Device::Window, true)] {
        harness.state_mut().document_mut().settings.device = device.clone();
        settle(&mut harness);
        let app = harness.state();
        assert!(app.failure().is_none(), "{device:?}: {:?}", app.failure());
        let snapshot = app.snapshot().expect("a map");
        assert_eq!(snapshot.on_window_device, on_window, "{device:?}");
        let error = relative_error(&snapshot.row.fused, &here);
        assert!(error < 1e-3, "{device:?}: {error:.1e}");
        assert!(snapshot.layer(LayerId::Map).is_some(), "{device:?} is drawn");
    }
    // What cannot be opened is told, and the last map stays.
    let kept = harness.state().snapshot().map(|s| s.request);
    harness.state_mut().document_mut().settings.device = Device::Named("cuda:host:tf32".into());
    settle(&mut harness);
    let why = harness.state().failure().expect("a reason").to_string();
    assert!(why.contains("has one precision"), "{why}");
    assert_eq!(harness.state().snapshot().map(|s| s.request), kept);
}

#[test]
fn every_view_of_the_list_opens_and_looks_as_it_did() {
    let sources = vec![drawn("views.png", 160, 120)];
    for scale in [1.0, 2.0] {
        let options = Options { sources: sources.clone(), ..Options::default() };
        let mut harness = open_scaled(options, vec2(1280.0, 800.0), scale);
        harness.state_mut().document_mut().settings.compute.landmark_side = 4;
        settle(&mut harness);
        for theme in [egui::Theme::Dark, egui::Theme::Light] {
            harness.ctx.set_theme(theme);
            for view in views() {
                assert!(harness.state_mut().open_view(view.id()));
                // A view of masks shows little without one.
                let masked = view.id() == "relative-mask";
                let compute = &mut harness.state_mut().document_mut().settings.compute;
                compute.mask = if masked { Kind::Distance.usual() } else { MaskSpec::None };
                settle(&mut harness);
                harness.run_steps(4);
                assert!(
                    harness.state().failure().is_none(),
                    "{}: {:?}",
                    view.id(),
                    harness.state().failure()
                );
                let picture = harness.render().expect("a picture of the window");
                assert_eq!(picture.dimensions(), ((1280.0 * scale) as u32, (800.0 * scale) as u32));
                if let Some(folder) = std::env::var_os("WGATTN_KEEP_IMAGES") {
                    let name = format!("{}-{theme:?}-{scale}.png", view.id());
                    picture.save(PathBuf::from(folder).join(name)).expect("kept to be looked at");
                }
                if scale == 1.0 && theme == egui::Theme::Dark {
                    looks_as_it_did(view.id(), &picture);
                }
            }
        }
    }
}

/// Compares a quarter-size picture with the stored one. Texts with times differ from run to run, so it is the mean over all
/// pixels that counts; `WGATTN_UPDATE=1` stores it anew.
fn looks_as_it_did(name: &str, picture: &image::RgbaImage) {
    let small = image::imageops::resize(picture, 320, 200, image::imageops::FilterType::Triangle);
    let small = image::DynamicImage::ImageRgba8(small).to_rgb8();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/explorer/{name}.png"));
    if std::env::var_os("WGATTN_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        small.save(&path).expect("stored");
        return;
    }
    let stored = image::open(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; store it with WGATTN_UPDATE=1", path.display()));
    let stored = stored.to_rgb8();
    let gap: u64 = stored.iter().zip(small.iter()).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    let mean = gap as f64 / stored.len() as f64;
    assert!(mean < 4.0, "{name} differs from tests/snapshots/explorer by {mean:.1} of 255 on average");
}

#[test]
fn heads_fuse_as_asked_and_stand_side_by_side() {
    let mut harness = explorer(&[&drawn("heads.png", 96, 72)]);
    for fusion in [Fusion::Mean, Fusion::Max, Fusion::Min, Fusion::Head(2)] {
        harness.state_mut().document_mut().settings.look.fusion = fusion;
        settle(&mut harness);
        let row = &harness.state().snapshot().expect("a map").row;
        let of = |t: usize| row.heads.iter().map(|h| h[t]).collect::<Vec<_>>();
        for t in [0, 7, row.fused.len() - 1] {
            let expected = match fusion {
                Fusion::Mean => of(t).iter().sum::<f32>() / 4.0,
                Fusion::Max => of(t).into_iter().fold(f32::MIN, f32::max),
                Fusion::Min => of(t).into_iter().fold(f32::MAX, f32::min),
                Fusion::Head(head) => of(t)[head],
            };
            assert!((row.fused[t] - expected).abs() <= 1e-6, "{fusion:?}");
        }
    }
    harness.get_by_label("All heads").click();
    settle(&mut harness);
    let layers = &harness.state().snapshot().expect("a map").layers;
    assert_eq!(layers.iter().filter(|l| matches!(l.id, LayerId::Head(_))).count(), 4);
}

#[test]
fn painting_hides_keys_and_undo_brings_them_back() {
    let mut harness = explorer(&[&drawn("paint.png", 160, 120)]);
    assert!(harness.state_mut().open_view("mask-topology"));
    settle(&mut harness);
    let before = harness.state().snapshot().expect("a map").row.fused.clone();
    harness.get_by_label("Brush").click();
    harness.run_steps(2);
    drag(&mut harness, pos2(420.0, 300.0), pos2(700.0, 480.0));
    settle(&mut harness);
    assert!(!harness.state().document().mask.is_empty(), "something is painted");
    let masked = harness.state().snapshot().expect("a map").row.fused.clone();
    let gone = before.iter().zip(&masked).filter(|(a, b)| **a != 0.0 && **b == 0.0).count();
    assert!(gone > 3, "{gone} keys are hidden");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    settle(&mut harness);
    assert!(harness.state().document().mask.is_empty());
    let error = relative_error(&harness.state().snapshot().expect("a map").row.fused, &before);
    assert!(error < 1e-6, "the map is back: {error:.1e}");
}

#[test]
fn views_maps_tables_settings_and_sessions_are_saved_and_restored() {
    let mut harness = explorer(&[&drawn("saved.png", 96, 72)]);
    let names = ["view.png", "map.npy", "session.json"];
    let paths: Vec<PathBuf> = names.iter().map(|n| file(n)).collect();
    harness.state_mut().answer_dialogs_with(paths.clone());
    harness.key_press_modifiers(Modifiers::COMMAND, Key::S);
    settle(&mut harness);
    harness.run_steps(4);
    harness.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::S);
    settle(&mut harness);
    assert!(harness.state().news().is_some_and(|n| n.starts_with("Saved")), "{:?}", harness.state().news());
    let map = wgattn::arrays::read(&paths[1]).expect("the map is readable");
    assert_eq!(
        map.values().next().expect("one array").shape.iter().product::<usize>(),
        harness.state().snapshot().expect("a map").grid.tokens()
    );
    harness.render().expect("a frame, in which the view is photographed");
    let seen = image::open(&paths[0]).expect("the view is a picture");
    assert!(
        seen.width() > 700 && seen.width() < 1280,
        "the views without the panel: {} pixels",
        seen.width()
    );
    // Menus lead to the rest.
    harness.get_by_label("File").click();
    harness.run_steps(2);
    harness.get_by_label_contains("Save session").click();
    settle(&mut harness);
    let kept = harness.state().document().clone();
    harness.state_mut().document_mut().settings.compute.landmark_side = 3;
    harness.state_mut().document_mut().query = [5, 5];
    settle(&mut harness);
    harness.state_mut().answer_dialogs_with([paths[2].clone()]);
    harness.get_by_label("File").click();
    harness.run_steps(2);
    harness.get_by_label_contains("Restore session").click();
    settle(&mut harness);
    settle(&mut harness);
    assert_eq!(*harness.state().document(), kept, "everything is back");
}

#[test]
fn a_sweep_of_the_bandwidth_becomes_an_animation() {
    let mut harness = explorer(&[&drawn("ramp.png", 64, 48)]);
    let (path, before) = (file("sweep.gif"), harness.state().document().clone());
    harness.state_mut().answer_dialogs_with([path.clone()]);
    harness.get_by_label("File").click();
    harness.run_steps(2);
    harness.get_by_label_contains("Export").click();
    harness.run_steps(4);
    harness.get_by_label_contains("sweep").click();
    let start = Instant::now();
    while harness.state().news().is_none_or(|n| !n.starts_with("Saved")) {
        assert!(start.elapsed() < PATIENCE, "no animation: {:?}", harness.state().news());
        harness.step();
        harness.render().expect("a frame");
    }
    let reader = std::io::BufReader::new(std::fs::File::open(&path).expect("the animation"));
    let decoder = image::codecs::gif::GifDecoder::new(reader).expect("a GIF");
    assert_eq!(image::AnimationDecoder::into_frames(decoder).count(), 24);
    assert_eq!(*harness.state().document(), before, "and λ is what it was");
}

#[test]
fn a_lost_device_is_noticed() {
    let harness = explorer(&[&drawn("lost.png", 64, 48)]);
    harness.state().device().destroy();
    let start = Instant::now();
    while !harness.state().is_lost() {
        assert!(start.elapsed() < PATIENCE, "nobody noticed");
        std::thread::sleep(Duration::from_millis(5));
        let _ = harness.state().device().poll(wgpu::PollType::Poll);
    }
}

#[test]
fn a_reference_is_kept_and_compared() {
    let mut harness = explorer(&[&drawn("reference.png", 96, 72)]);
    click(&mut harness, MIDDLE, PointerButton::Secondary);
    assert!(harness.state().reference_error().is_some_and(|(error, _)| error < 1e-9));
    click(&mut harness, MIDDLE + vec2(-200.0, 100.0), PointerButton::Primary);
    settle(&mut harness);
    assert!(harness.state().reference_error().is_some_and(|(error, _)| error > 0.01));
}

/// C30: pictures that no texture holds, and such that are hardly one.
#[test]
fn odd_and_huge_pictures_are_shown() {
    for (name, width, height) in
        [("one.png", 1, 1), ("wide.png", 8193, 3), ("tall.png", 3, 20_000), ("thin.png", 1, 300)]
    {
        let mut harness = explorer(&[&drawn(name, width, height)]);
        let app = harness.state();
        assert!(app.failure().is_none(), "{name}: {:?}", app.failure());
        assert_eq!(app.snapshot().expect("a map").grid.photo_size(), UVec2::new(width, height), "{name}");
        assert!(harness.render().is_ok());
    }
}

#[test]
fn a_missing_file_is_told_and_nothing_else_is_shown_in_its_place() {
    let options = Options { sources: vec!["/nowhere/picture.png".into()], ..Options::default() };
    let mut harness = open(options, vec2(900.0, 600.0));
    harness.run_steps(4);
    let why = harness.state().source_error().unwrap_or_default().to_string();
    assert!(why.contains("/nowhere/picture.png"), "{why}");
    assert!(harness.state().snapshot().is_none());
    assert!(harness.query_by_label_contains("/nowhere/picture.png").is_some(), "it stands in the window");
}

#[test]
fn a_moving_scene_plays_pauses_and_steps() {
    let mut harness =
        open(Options { sources: vec!["synthetic".into()], ..Options::default() }, vec2(900.0, 600.0));
    let start = Instant::now();
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 4 {
        assert!(start.elapsed() < PATIENCE, "maps of {seen:?} only");
        harness.step();
        seen.extend(harness.state().snapshot().map(|s| s.request));
        std::thread::sleep(Duration::from_millis(5));
    }
    harness.key_press(Key::Space);
    harness.run_steps(3);
    settle(&mut harness);
    let paused = harness.state().snapshot().expect("a map").request;
    harness.run_steps(10);
    assert_eq!(
        harness.state().snapshot().map(|s| s.request),
        Some(paused),
        "a paused scene is not computed again"
    );
    assert!(harness.query_by_label_contains("aused").is_some(), "the status bar says so");
}

/// A file as a desktop drops it.
#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &std::path::Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        std::fs::read(&self.0).map_err(|e| e.to_string())
    }
}

/// C33: a file that is dropped is opened. Its picture stays when the slow map of the moving source before it comes at last.
#[test]
fn a_late_map_does_not_bring_its_picture_back_over_a_still_one() {
    const GREEN: [u8; 3] = [0, 170, 60];
    let path = file("still.png");
    image::RgbImage::from_pixel(320, 240, image::Rgb(GREEN)).save(&path).expect("the picture is written");
    let mut document = Document::default();
    // The reference takes far longer for a map than a picture takes to open.
    document.settings.device = Device::Named("cpu".into());
    document.settings.look.opacity = 0.0;
    let sources = vec!["synthetic".into()];
    let options = Options { sources, document: Some(document), ..Options::default() };
    let mut harness = open(options, vec2(900.0, 600.0));
    let start = Instant::now();
    // The first map has come, and another one is under way.
    while harness.state().snapshot().is_none() || harness.state().is_settled() {
        assert!(start.elapsed() < PATIENCE, "no map: {:?}", harness.state());
        harness.step();
        std::thread::sleep(Duration::from_millis(5));
    }
    // In the picture, away from the ring around the query.
    let is_green = |harness: &mut Harness<'_, App>| {
        let picture = harness.render().expect("a picture");
        picture.get_pixel(450, 200).0[..3] == GREEN
    };
    assert!(!is_green(&mut harness), "the scene is grey there");
    let before = harness.state().snapshot().map(|s| s.request);
    harness.input_mut().dropped_files.push(std::sync::Arc::new(Dropped(path)));
    let (mut shown, mut after) = (false, 0);
    while after < 5 {
        assert!(start.elapsed() < 2 * PATIENCE, "no map of the still picture: {:?}", harness.state());
        harness.step();
        let green = is_green(&mut harness);
        assert!(green || !shown, "an older picture came back");
        shown |= green;
        let settled = harness.state().is_settled();
        after += usize::from(shown && settled && harness.state().snapshot().map(|s| s.request) != before);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Arrays of a model of one's own stand in for the features of the picture.
#[test]
fn arrays_of_a_model_are_mapped() {
    use wgattn::arrays::{Array, ArrayData};
    let (heads, rows, cols, d) = (2, 6, 8, 5);
    let number = |i: usize| ((i * 2_654_435_761) % 1009) as f32 / 500.0 - 1.0;
    let array = |shift: usize| Array {
        shape: vec![heads, rows * cols, d],
        data: ArrayData::F32((0..heads * rows * cols * d).map(|i| number(i + shift)).collect()),
    };
    let path = file("model.npz");
    wgattn::arrays::write(&path, &[("q".to_string(), array(0)), ("k".to_string(), array(7))].into())
        .expect("written");
    let mut harness = explorer(&[&drawn("model.png", 80, 60)]);
    harness.state_mut().answer_dialogs_with([path]);
    harness.get_by_label("File").click();
    harness.run_steps(2);
    harness.get_by_label_contains("arrays").click();
    settle(&mut harness);
    let compute = &mut harness.state_mut().document_mut().settings.compute;
    compute.similarity = Similarity::Softmax;
    settle(&mut harness);
    let app = harness.state();
    assert!(app.failure().is_none(), "{:?}", app.failure());
    let snapshot = app.snapshot().expect("a map");
    assert_eq!((snapshot.grid.rows(), snapshot.grid.cols(), snapshot.row.heads.len()), (rows, cols, heads));
    // softmax(q·k/√d) of the clicked token, by hand.
    for (head, found) in snapshot.row.heads.iter().enumerate() {
        let at = |shift: usize, token: usize, c: usize| {
            f64::from(number((head * rows * cols + token) * d + c + shift))
        };
        let score = |j: usize| {
            (0..d).map(|c| at(0, snapshot.query_token, c) * at(7, j, c)).sum::<f64>() / (d as f64).sqrt()
        };
        let weights: Vec<f64> = (0..rows * cols).map(|j| score(j).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (x, w) in found.iter().zip(&weights) {
            assert!((f64::from(*x) - w / total).abs() < 1e-5, "head {head}: {x} and {}", w / total);
        }
    }
}

/// Prints how long frames and maps take on this adapter. No assertion on times: machines differ.
#[test]
fn times_from_input_to_picture() {
    let mut harness = explorer(&[&drawn("times.png", 512, 512)]);
    harness.state_mut().document_mut().settings.compute.lambda = Some(2.0);
    settle(&mut harness);
    let snapshot = harness.state().snapshot().expect("a map");
    println!(
        "{} tokens, {} landmarks on {}",
        snapshot.grid.tokens(),
        snapshot.landmarks,
        snapshot.device.name
    );
    harness.set_render_every_step(true);
    let mut hover = Vec::new();
    for i in 0..40 {
        let from = Instant::now();
        harness.event(egui::Event::PointerMoved(MIDDLE + vec2(i as f32 * 5.0 - 100.0, i as f32)));
        harness.step();
        hover.push(from.elapsed().as_secs_f64());
    }
    let mut pan = Vec::new();
    harness.event(egui::Event::PointerButton {
        pos: MIDDLE,
        button: PointerButton::Primary,
        pressed: true,
        modifiers: Modifiers::NONE,
    });
    for i in 0..40 {
        let from = Instant::now();
        harness.event(egui::Event::PointerMoved(MIDDLE + vec2(i as f32, i as f32)));
        harness.step();
        pan.push(from.elapsed().as_secs_f64());
    }
    harness.event(egui::Event::PointerButton {
        pos: MIDDLE,
        button: PointerButton::Primary,
        pressed: false,
        modifiers: Modifiers::NONE,
    });
    harness.step();
    harness.set_render_every_step(false);
    let mut lambda = Vec::new();
    for i in 0..40 {
        let wanted = Some(1.5 + 0.05 * i as f32);
        harness.state_mut().document_mut().settings.compute.lambda = wanted;
        let from = Instant::now();
        harness.step();
        while harness.state().snapshot().is_none_or(|s| s.compute.lambda != wanted) {
            std::thread::sleep(Duration::from_micros(500));
            harness.step();
        }
        lambda.push(from.elapsed().as_secs_f64());
    }
    for (name, times) in [("hover", &mut hover), ("pan", &mut pan), ("λ", &mut lambda)] {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| 1e3 * times[((times.len() - 1) as f64 * share) as usize];
        println!("{name}: median {:.1} ms, 95th percentile {:.1} ms", at(0.5), at(0.95));
        assert!(times.iter().all(|t| t.is_finite()));
    }
}
