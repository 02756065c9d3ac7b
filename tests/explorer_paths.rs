//! Files by name: the field that stands in for the system's dialogs, sessions whose picture is gone, commands that work
//! anywhere, and how failures are told.

mod explorer_driver;

use eframe::egui::{Event, Key, Modifiers, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use explorer_driver::{copied, drawn, explorer, file, open, settle};
use std::path::Path;
use std::time::{Duration, Instant};
use wgattn::explorer::document::Document;
use wgattn::explorer::session::Session;
use wgattn::explorer::settings::Fusion;
use wgattn::explorer::{App, NewsKind, Options};

/// A window on a machine without dialogs, with a settled map.
fn without_dialogs(sources: &[&str]) -> Harness<'static, App> {
    let mut harness = explorer(sources);
    harness.state_mut().set_system_dialogs(false);
    harness
}

/// Keeps a picture of the window for people to look at, where they ask for it.
fn keep(harness: &mut Harness<'_, App>, name: &str) {
    if let Some(folder) = std::env::var_os("WGATTN_PICTURES") {
        let picture = harness.render().expect("a picture of the window");
        picture.save(Path::new(&folder).join(format!("{name}.png"))).expect("the picture is written");
    }
}

/// Replaces what is in the field and presses Enter.
fn answer(harness: &mut Harness<'_, App>, text: &str) {
    harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
    harness.step();
    harness.event(Event::Text(text.into()));
    harness.step();
    press(harness, Key::Enter);
}

fn press(harness: &mut Harness<'_, App>, key: Key) {
    harness.key_press(key);
    harness.run_steps(3);
}

/// Steps until that picture is in sight: it is read on a thread of its own.
fn wait_for(harness: &mut Harness<'_, App>, name: &str) {
    let start = Instant::now();
    while harness.state().picture_name().as_deref() != Some(name) {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", harness.state().picture_name());
        std::thread::sleep(Duration::from_millis(10));
        harness.step();
    }
}

fn menu(harness: &mut Harness<'_, App>, entry: &str) {
    harness.get_by_label("File").click();
    harness.run_steps(2);
    harness.get_by_label_contains(entry).click();
    harness.run_steps(3);
}

#[test]
fn files_are_saved_and_opened_without_dialogs_of_the_system() {
    let mut harness = without_dialogs(&[&drawn("field.png", 96, 72)]);
    harness.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::S);
    harness.run_steps(3);
    assert!(harness.query_by_label("Export map as").is_some(), "the field is there");
    keep(&mut harness, "path-field");
    press(&mut harness, Key::Escape);
    assert!(harness.query_by_label("Export map as").is_none(), "Esc closes it");

    harness.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::S);
    harness.run_steps(3);
    answer(&mut harness, "/nowhere/at/all/map.npy");
    assert!(harness.query_by_label_contains("/nowhere/at/all").is_some(), "the error stands in the field");
    assert!(harness.query_by_label("Export map as").is_some(), "which stays");
    keep(&mut harness, "path-field-error");
    let (typed, meant) = (file("field-map"), file("field-map.npy"));
    answer(&mut harness, &typed.display().to_string());
    assert!(harness.query_by_label("Export map as").is_none(), "done");
    assert!(meant.is_file() && !typed.exists(), "the suffix was added");
    assert_eq!(harness.state().news_kind(), Some(NewsKind::Note));

    // What is there already is replaced only when it is said twice.
    std::fs::write(&meant, "old").expect("written");
    harness.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::S);
    harness.run_steps(3);
    answer(&mut harness, &meant.display().to_string());
    assert_eq!(std::fs::read(&meant).expect("there"), b"old");
    press(&mut harness, Key::Enter);
    assert!(std::fs::read(&meant).expect("there").len() > 100, "replaced");

    let other = drawn("field-other.png", 64, 48);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::O);
    harness.run_steps(3);
    assert!(harness.query_by_label("Open file").is_some());
    answer(&mut harness, &file("field-missing.png").display().to_string());
    assert!(harness.query_by_label("Open file").is_some(), "nothing of that name");
    answer(&mut harness, &other);
    wait_for(&mut harness, "field-other.png");
    settle(&mut harness);

    // The view is drawn first and written then.
    let view = file("field-view.png");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::S);
    harness.run_steps(3);
    answer(&mut harness, &view.display().to_string());
    harness.render().expect("a frame");
    harness.run_steps(3);
    assert!(view.is_file());
}

#[test]
fn a_session_whose_picture_is_gone_comes_back_with_all_else() {
    let path = file("gone.json");
    let mut document = Document { query: [30, 40], ..Document::default() };
    document.settings.compute.landmark_side = 5;
    let source = Some("/nowhere/gone.png".to_string());
    Session { document, source, ..Session::default() }.save(&path).expect("saved");
    let options = Options { session: Some(path), ..Options::default() };
    let mut harness = open(options, vec2(1000.0, 700.0));
    settle(&mut harness);
    let app = harness.state();
    assert_eq!(app.document().settings.compute.landmark_side, 5);
    assert_eq!(app.document().query, [30, 40]);
    assert_eq!(app.news_kind(), Some(NewsKind::Failure));
    assert!(app.news().is_some_and(|n| n.contains("/nowhere/gone.png")), "{:?}", app.news());
    assert_eq!(app.picture_name().as_deref(), Some("chelsea.png"));
    keep(&mut harness, "session-gone");
}

#[test]
fn sessions_name_their_source_from_anywhere() {
    let mut harness = without_dialogs(&["assets/chelsea.png"]);
    let path = file("absolute.json");
    menu(&mut harness, "Save session");
    answer(&mut harness, &path.display().to_string());
    let source = Session::load(&path).expect("a session").source.expect("a source");
    assert!(Path::new(&source).is_absolute() && Path::new(&source).is_file(), "{source}");
}

#[test]
fn the_copied_command_works_from_any_folder() {
    let mut harness = explorer(&[]);
    let command = copied(&mut harness).expect("a command");
    assert!(command.starts_with("wgattn map cat --at "), "{command}");

    let mut harness = explorer(&["assets/chelsea.png"]);
    harness.state_mut().document_mut().settings.look.fusion = Fusion::Head(2);
    settle(&mut harness);
    let command = copied(&mut harness).expect("a command");
    let words: Vec<&str> = command.split(' ').collect();
    assert!(Path::new(words[2].trim_matches('\'')).is_absolute(), "{command}");
    assert!(command.contains("--head 2"), "{command}");
    assert!(
        harness.state().news().is_some_and(|n| n.contains("Head 3 is --head 2")),
        "numbered from 0 there"
    );

    // A folder's picture has its own file.
    let folder = file("a folder");
    std::fs::create_dir_all(&folder).expect("a folder");
    for name in ["1.png", "2.png"] {
        std::fs::copy(drawn(name, 64, 48), folder.join(name)).expect("copied");
    }
    let mut harness = explorer(&[&folder.display().to_string()]);
    press(&mut harness, Key::PageDown);
    wait_for(&mut harness, "2.png");
    settle(&mut harness);
    let command = copied(&mut harness).expect("a command");
    let expected = format!("'{}'", folder.join("2.png").display());
    assert!(command.contains(&expected), "{command}");

    // A frame of the moving scene lies in no file.
    let mut harness =
        open(Options { sources: vec!["synthetic".into()], ..Options::default() }, vec2(900.0, 600.0));
    let start = Instant::now();
    while harness.state().snapshot().is_none() {
        assert!(start.elapsed() < Duration::from_secs(30));
        harness.step();
    }
    assert_eq!(copied(&mut harness), None);
    assert_eq!(harness.state().news_kind(), Some(NewsKind::Failure));
}

#[test]
fn a_missing_source_among_several_is_told_as_a_failure() {
    let mut harness = explorer(&[&drawn("first.png", 64, 48), "/nowhere/second.png"]);
    assert_eq!(harness.state().news_kind(), Some(NewsKind::Failure));
    assert!(harness.state().news().is_some_and(|n| n.contains("/nowhere/second.png")));
    keep(&mut harness, "missing-source");
}

#[test]
fn an_empty_clipboard_is_told() {
    let mut harness = explorer(&[&drawn("paste.png", 64, 48)]);
    menu(&mut harness, "Paste image");
    let start = Instant::now();
    while harness.state().news_kind() != Some(NewsKind::Failure) {
        assert!(start.elapsed() < Duration::from_secs(10), "nothing was told");
        std::thread::sleep(Duration::from_millis(20));
        harness.step();
    }
    assert!(harness.state().news().is_some_and(|n| n.contains("clipboard")));
}

#[test]
fn a_failed_export_is_told_as_a_failure() {
    let mut harness = explorer(&[&drawn("failed.png", 64, 48)]);
    harness.state_mut().answer_dialogs_with([Path::new("/nowhere/map.npy").to_path_buf()]);
    harness.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::S);
    harness.run_steps(3);
    assert_eq!(harness.state().news_kind(), Some(NewsKind::Failure), "{:?}", harness.state().news());
}
