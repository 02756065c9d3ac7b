//! The view of position codes, driven as a user would: kinds, noise, gate and gain, maps of clicked tokens, bad settings, sessions, undo.

mod explorer_driver;

use eframe::egui::{self, Key, Modifiers, PointerButton, Pos2, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use explorer_driver::{click, copied, drawn, file, open, settle};
use std::path::PathBuf;
use std::sync::OnceLock;
use wgattn::explorer::position::{Axes, Kernel, Kind, PositionSettings};
use wgattn::explorer::session::Session;
use wgattn::explorer::settings::Device;
use wgattn::explorer::{App, Options};
use wgattn::position::Mode;

/// The picture that all tests share: written once, so that none reads what another is writing.
fn picture() -> String {
    static PICTURE: OnceLock<String> = OnceLock::new();
    PICTURE.get_or_init(|| drawn("position.png", 160, 120)).clone()
}

fn view(size: egui::Vec2) -> Harness<'static, App> {
    let options = Options { sources: vec![picture()], views: vec!["position".into()], ..Options::default() };
    let mut harness = open(options, size);
    settle(&mut harness);
    harness
}

const WIDE: egui::Vec2 = vec2(1280.0, 800.0);

/// Keeps a picture to be looked at, where that is asked for.
fn keep(harness: &mut Harness<'_, App>, name: &str) {
    harness.run_steps(3);
    if let Some(folder) = std::env::var_os("WGATTN_KEEP_IMAGES") {
        let picture = harness.render().expect("a picture of the window");
        picture.save(PathBuf::from(folder).join(format!("{name}.png"))).expect("kept to be looked at");
    }
}

fn settings<'a>(harness: &'a mut Harness<'_, App>) -> &'a mut PositionSettings {
    &mut harness.state_mut().document_mut().settings.position
}

/// Sets something and waits for what it makes.
fn set(harness: &mut Harness<'_, App>, change: impl FnOnce(&mut PositionSettings)) {
    change(settings(harness));
    settle(harness);
    assert!(harness.state().failure().is_none(), "{:?}", harness.state().failure());
}

/// The value of a figure: what stands behind its caption.
fn figure(harness: &Harness<'_, App>, caption: &str) -> String {
    let start = format!("{caption}: ");
    let words = |node: &egui_kittest::Node<'_>| {
        let node = node.accesskit_node();
        node.value().or_else(|| node.label())
    };
    let found = harness.query_all_by_label_contains(&start);
    let labels: Vec<String> =
        found.filter_map(|node| words(&node)).filter(|l| l.starts_with(&start)).collect();
    let first = labels.first().unwrap_or_else(|| panic!("no figure {caption}"));
    first[start.len()..].to_string()
}

/// Numbers of a figure, in their order.
fn numbers(harness: &Harness<'_, App>, caption: &str) -> Vec<f64> {
    let words = figure(harness, caption).replace(['\u{202f}', '\u{2009}'], "").replace('−', "-");
    words.split([' ', '%', ',']).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn it_can_be_read_in_windows_of_all_sizes() {
    for (theme, name) in [(egui::Theme::Dark, "dark"), (egui::Theme::Light, "light")] {
        for size in [WIDE, vec2(640.0, 420.0), vec2(900.0, 700.0)] {
            let mut harness = view(size);
            harness.ctx.set_theme(theme);
            settle(&mut harness);
            assert!(harness.state().failure().is_none(), "{:?}", harness.state().failure());
            keep(&mut harness, &format!("position-{name}-{}", size.x));
            let parts: &[&str] = match size.x < 1000.0 {
                true => &["Template", "Lags", "Noise", "Figures", "Maps"],
                false => &[],
            };
            for part in parts {
                let tabs: Vec<Pos2> =
                    harness.query_all_by_label(part).map(|node| node.rect().center()).collect();
                // Other parts of the window may have the same words.
                let tab = tabs.into_iter().filter(|at| at.x > 304.0).min_by(|a, b| a.y.total_cmp(&b.y));
                click(&mut harness, tab.expect("a tab"), PointerButton::Primary);
                settle(&mut harness);
                keep(&mut harness, &format!("position-{name}-{}-{part}", size.x));
            }
        }
    }
}

#[test]
fn noise_is_as_large_as_the_formula_says_for_every_code() {
    let mut harness = view(WIDE);
    for kind in [Kind::Sine, Kind::Conv] {
        for axes in [Axes::Picture, Axes::Line] {
            for noise in [Mode::Icdf, Mode::BoxMuller] {
                set(&mut harness, |s| (s.kind, s.axes, s.noise) = (kind, axes, noise));
                let [ratio, error] = numbers(&harness, "Ratio")[..] else { panic!("ratio ± error") };
                assert!((ratio - 1.0).abs() < 4.0 * error.max(0.01), "{kind:?} {axes:?} {noise:?}: {ratio}");
                let [measured, predicted] = numbers(&harness, "Logit noise")[..] else {
                    panic!("two numbers")
                };
                // One draw, whose keys have the query's noise in common.
                assert!(
                    (0.4..2.5).contains(&(measured / predicted)),
                    "{kind:?} {axes:?}: {measured} {predicted}"
                );
            }
        }
        keep(&mut harness, &format!("position-{kind:?}-line"));
        set(&mut harness, |s| s.axes = Axes::Picture);
        keep(&mut harness, &format!("position-{kind:?}-picture"));
    }
    set(&mut harness, |s| (s.kind, s.noise) = (Kind::Sine, Mode::Rademacher));
    keep(&mut harness, "position-signs");
}

#[test]
fn more_realisations_make_less_noise_and_a_gate_lets_through_less() {
    let mut harness = view(WIDE);
    let [_, predicted] = numbers(&harness, "Template noise")[..] else { panic!("two numbers") };
    let moved = numbers(&harness, "Weight moved by noise")[0];
    set(&mut harness, |s| s.realizations = 1024);
    let [_, less] = numbers(&harness, "Template noise")[..] else { panic!("two numbers") };
    assert!((predicted / less - 4.0).abs() < 0.1, "{predicted} {less}: sixteen times R quarters it");
    assert!(numbers(&harness, "Weight moved by noise")[0] < moved);
    keep(&mut harness, "position-many");
    set(&mut harness, |s| s.gate = 0.9);
    let variances = numbers(&harness, "Variances")[0];
    assert!((0.9..1.0).contains(&variances) || variances > 1.0, "γ of it is constant: {variances}");
    keep(&mut harness, "position-gated");
    set(&mut harness, |s| (s.gate, s.gain) = (0.0, 0.0));
    assert!(harness.query_by_label_contains("There is no noise").is_some());
    keep(&mut harness, "position-no-gain");
    set(&mut harness, |s| s.gain = 3.0);
    keep(&mut harness, "position-gain");
}

#[test]
fn a_redraw_keeps_the_template_and_another_one_does_not() {
    let mut harness = view(WIDE);
    let (variances, noise) = (figure(&harness, "Variances"), figure(&harness, "Logit noise"));
    harness.get_by_label("Redraw").click();
    settle(&mut harness);
    assert_eq!(figure(&harness, "Variances"), variances);
    assert_ne!(figure(&harness, "Logit noise"), noise);
    harness.get_by_label("Another").click();
    settle(&mut harness);
    assert_ne!(figure(&harness, "Variances"), variances);
    for _ in 0..2 {
        harness.key_press_modifiers(Modifiers::COMMAND, Key::Z);
        harness.run_steps(2);
    }
    settle(&mut harness);
    assert_eq!(settings(&mut harness), &PositionSettings::default(), "undo takes both back");
    assert_eq!(figure(&harness, "Logit noise"), noise, "and the same noise is drawn again");
}

#[test]
fn maps_follow_the_click_and_the_kernel() {
    let mut harness = view(WIDE);
    let before = figure(&harness, "Logit noise");
    click(&mut harness, pos2(400.0, 250.0), PointerButton::Primary);
    settle(&mut harness);
    assert_ne!(figure(&harness, "Logit noise"), before, "another row");
    keep(&mut harness, "position-clicked");
    for kernel in [Kernel::Elu, Kernel::Relu] {
        set(&mut harness, |s| s.kernel = kernel);
        assert!(harness.query_by_label_contains("Weight moved by noise").is_none(), "no exact row");
        keep(&mut harness, &format!("position-{kernel:?}"));
    }
    for (head, dimension) in [(3, 31), (1, 5)] {
        set(&mut harness, |s| (s.head, s.dimension) = (head, dimension));
    }
}

#[test]
fn what_cannot_be_shown_is_said_and_can_be_put_right() {
    let mut harness = view(WIDE);
    // A head that other settings took away.
    settings(&mut harness).head = 3;
    harness.state_mut().document_mut().settings.compute.heads = 2;
    settle(&mut harness);
    keep(&mut harness, "position-no-head");
    assert!(harness.state().failure().is_none(), "the rest of the window goes on");
    set(&mut harness, |s| s.head = 0);
    assert!(harness.query_by_label_contains("Weight moved by noise").is_some());
    // What only a program could set.
    for (change, words) in [
        ((|s| s.sinusoids = 0) as fn(&mut PositionSettings), "sinusoids"),
        (|s| s.bias = f64::INFINITY, "bias"),
        (|s| s.gain = -1.0, "gains"),
        (|s| s.gain = f64::INFINITY, "gains"),
        (|s| s.gate = 1.0, "gate"),
        (|s| s.realizations = 0, "realisations"),
        (|s| s.sinusoids = 3_000_000, "sinusoids"),
        (|s| (s.kind, s.taps) = (Kind::Conv, 0), "taps"),
        (|s| s.dimension = 900, "dimension"),
        (|s| s.head = u32::MAX, "head"),
    ] {
        *settings(&mut harness) = PositionSettings::default();
        set(&mut harness, change);
        assert!(
            harness.query_by_label_contains("Template noise: ").is_none(),
            "{words}: nothing is shown for it"
        );
    }
    keep(&mut harness, "position-wrong");
    set(&mut harness, |s| *s = PositionSettings::default());
    assert!(harness.query_by_label_contains("Weight moved by noise").is_some());
}

#[test]
fn without_a_picture_the_template_is_there_all_the_same() {
    let options =
        Options { views: vec!["position".into()], sources: vec!["missing.png".into()], ..Options::default() };
    let mut harness = open(options, WIDE);
    for _ in 0..400 {
        harness.step();
        std::thread::sleep(std::time::Duration::from_millis(5));
        if harness.query_by_label_contains("Template noise: ").is_some() {
            break;
        }
    }
    assert!(harness.query_by_label_contains("Template noise: ").is_some());
    keep(&mut harness, "position-empty");
}

#[test]
fn sessions_keep_the_settings_and_refuse_those_that_cannot_be() {
    let path = file("position.json");
    let mut session = Session::default();
    session.document.settings.position = PositionSettings {
        axes: Axes::Line,
        kind: Kind::Conv,
        taps: 12,
        realizations: 256,
        gate: 0.25,
        noise: Mode::Rademacher,
        kernel: Kernel::Elu,
        ..PositionSettings::default()
    };
    session.save(&path).expect("saved");
    assert_eq!(Session::load(&path).expect("loaded"), session);
    let text = std::fs::read_to_string(&path).expect("text");
    for (right, wrong, said) in [
        ("\"realizations\": 256", "\"realizations\": 100", "a power of two from 16 to 4096"),
        ("\"taps\": 12", "\"taps\": 0", "document.settings.position.taps"),
        ("\"gate\": 0.25", "\"gate\": 1.0", "document.settings.position.gate"),
        ("\"rademacher\"", "\"loud\"", "icdf"),
    ] {
        assert!(text.contains(right), "{right}: {text}");
        std::fs::write(&path, text.replace(right, wrong)).expect("written");
        let why = Session::load(&path).expect_err(wrong).to_string();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn numbers_under_the_pointer_are_those_of_the_maps_here() {
    let mut harness = view(WIDE);
    harness.event(egui::Event::PointerMoved(pos2(800.0, 250.0)));
    harness.run_steps(4);
    assert!(harness.query_by_label_contains("Exact template: ").is_some());
    assert!(harness.query_by_label_contains("of the row").is_none(), "and not of another one");
    keep(&mut harness, "position-pointer");
}

#[test]
fn a_large_picture_is_reduced_for_its_codes_and_a_heavy_code_is_refused() {
    let options = Options {
        sources: vec![drawn("large.png", 900, 700)],
        views: vec!["position".into()],
        ..Options::default()
    };
    let mut harness = open(options, WIDE);
    settle(&mut harness);
    let tokens = numbers(&harness, "Tokens")[0];
    assert!((2000.0..=4096.0).contains(&tokens), "{tokens}");
    keep(&mut harness, "position-large");
    set(&mut harness, |s| (s.realizations, s.sinusoids) = (4096, 60));
    assert!(harness.query_by_label_contains("Weight moved by noise").is_none());
    keep(&mut harness, "position-heavy");
}

#[cfg(unix)]
#[test]
fn the_copied_command_maps_the_same_tokens_under_the_same_code() {
    let options = Options {
        sources: vec![drawn("copied-code.png", 900, 700)],
        views: vec!["position".into()],
        ..Options::default()
    };
    let mut harness = open(options, WIDE);
    settle(&mut harness);
    assert!(harness.query_by_label_contains("Codes are drawn on the CPU here, for 4096 tokens").is_some());
    set(&mut harness, |s| (s.kind, s.taps, s.realizations, s.noise_seed) = (Kind::Conv, 3, 16, 9));
    harness.state_mut().document_mut().settings.device = Device::Named("cpu".into());
    harness.state_mut().document_mut().settings.compute.heads = 1;
    settle(&mut harness);
    let command = copied(&mut harness).unwrap_or_else(|| panic!("{:?}", harness.state().news()));
    let code = "--position spe-conv:taps=3x3,realizations=16,seed=9,init=1,shared-heads";
    for part in ["wgattn map ", "copied-code.png", code, "--max-tokens 4096", "--heads 1", "--head 0"] {
        assert!(command.contains(part), "no {part}: {command}");
    }
    assert_eq!(command.lines().count(), 1, "{command}");
    assert!(harness.state().news().is_some_and(|news| news.contains("the map with the code")));
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_wgattn")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a path"));
    let line = format!("{command} --json --out '{}'", file("copied-code-map.png").display());
    let out =
        std::process::Command::new("sh").args(["-c", &line]).env("PATH", path).output().expect("a shell");
    assert!(out.status.success(), "{line}\n{}", String::from_utf8_lossy(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("a report");
    assert_eq!(report["tokens"].as_f64(), Some(numbers(&harness, "Tokens")[0]), "{line}");
    // What has no words there is said.
    set(&mut harness, |s| s.gain = 2.0);
    assert_eq!(copied(&mut harness), None);
    assert!(
        harness.state().news().is_some_and(|news| news.contains("no gain")),
        "{:?}",
        harness.state().news()
    );
}
