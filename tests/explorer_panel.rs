//! The shell around the views, driven by its labels as a user would: side panel, menu, help, status bar, tour, in both
//! themes. With `WGATTN_GALLERY=FOLDER` the tests leave pictures of what they saw there.

mod explorer_support;

use eframe::egui::accesskit::Role;
use eframe::egui::{self, Theme, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use explorer_support::snapshot;
use glam::UVec2;
use std::time::Duration;
use wgattn::explorer::actions::{self, ACTIONS, Action};
use wgattn::explorer::keys::{LINES, Line};
use wgattn::explorer::panel::{PanelFacts, controls};
use wgattn::explorer::probe;
use wgattn::explorer::settings::{Device, Fusion, Range, Road, RowForm, Settings, Similarity};
use wgattn::explorer::status::{self, Busy, SourceState, StatusFacts, StatusRequest};
use wgattn::explorer::tour::{Page, Tour, TourRequest, pages};
use wgattn::explorer::views::{TourPage, View, ViewContext};
use wgattn::explorer::widgets;
use wgattn::vision::palette::Palette;

const THEMES: [Theme; 2] = [Theme::Dark, Theme::Light];

/// Saves what a harness shows, where a gallery was asked for.
fn picture<S>(harness: &mut Harness<'_, S>, name: &str) {
    if let Some(folder) = std::env::var_os("WGATTN_GALLERY") {
        let image = harness.render().expect("the harness renders");
        std::fs::create_dir_all(&folder).expect("the gallery's folder");
        image.save(std::path::Path::new(&folder).join(format!("{name}.png"))).expect("the picture is saved");
    }
}

fn name(theme: Theme, scale: f32) -> String {
    format!("{}-{scale}x", if theme == Theme::Dark { "dark" } else { "light" })
}

fn harness<'a, S: 'a>(
    size: impl Into<Vec2>,
    theme: Theme,
    scale: f32,
    draw: impl FnMut(&mut egui::Ui, &mut S) + 'a,
    state: S,
) -> Harness<'a, S> {
    Harness::builder()
        .with_size(size)
        .with_theme(theme)
        .with_pixels_per_point(scale)
        .with_max_steps(20)
        .with_step_dt(0.02)
        .with_context_setup(wgattn::explorer::fonts::install)
        .wgpu()
        .build_ui_state(draw, state)
}

fn facts() -> PanelFacts {
    PanelFacts {
        lambda: vec![7.31, 6.42, 9.05, 3.18],
        tokens: Some((64, 64)),
        exact: Some(false),
        range: Some((0.0, 0.873, false)),
        palette: Some(Palette::Sequential),
        devices: vec![
            ("Window (llvmpipe)".into(), Device::Window),
            ("SwiftShader · vulkan".into(), Device::Named("SwiftShader".into())),
            ("CPU reference".into(), Device::Named("cpu".into())),
        ],
    }
}

fn panel<'a>(theme: Theme, scale: f32, settings: Settings) -> Harness<'a, Settings> {
    let facts = facts();
    let draw = move |ui: &mut egui::Ui, settings: &mut Settings| {
        egui::Panel::left("controls").exact_size(300.0).show(ui, |ui| {
            egui::ScrollArea::vertical().show(ui, |ui| controls(ui, settings, &facts));
        });
    };
    let mut harness = harness([316.0, 860.0], theme, scale, draw, settings);
    harness.run();
    harness
}

/// The slider, or the field, that a label names.
fn by_role<'h, S>(harness: &'h Harness<'_, S>, role: Role, label: &'h str) -> egui_kittest::Node<'h> {
    harness.get_by_role_and_label(role, label)
}

#[test]
fn the_panel_is_drawn_in_both_themes_and_scales() {
    for theme in THEMES {
        for scale in [1.0, 2.0] {
            let mut settings = Settings::default();
            let mut seen = panel(theme, scale, settings.clone());
            picture(&mut seen, &format!("panel-{}", name(theme, scale)));
            settings.compute.lambda = Some(2.5);
            settings.compute.road = Road::Exact;
            settings.look.range = Range::Fixed(0.0, 0.5);
            let mut seen = panel(theme, scale, settings);
            seen.get_by_label("Tokens and heads").click();
            seen.get_by_label("Landmarks").click();
            seen.run();
            picture(&mut seen, &format!("panel-other-{}", name(theme, scale)));
        }
    }
}

#[test]
fn similarity_rows_and_lambda_are_chosen_by_their_names() {
    let mut panel = panel(Theme::Dark, 1.0, Settings::default());
    panel.get_by_label("Gaussian").click();
    panel.run();
    assert_eq!(panel.state().compute.similarity, Similarity::Gaussian);
    panel.get_by_label("Exact").click();
    panel.run();
    assert_eq!(panel.state().compute.road, Road::Exact);
    // The slider begins where the automatic values are: their mean.
    panel.get_by_label("Automatic, per head").click();
    panel.run();
    let begun = panel.state().compute.lambda.expect("by hand now");
    assert!((begun - 6.49).abs() < 1e-4, "{begun}");
    by_role(&panel, Role::Slider, "λ").set_value_accesskit(3.0);
    panel.run();
    let moved = panel.state().compute.lambda.expect("by hand still");
    assert!((moved - 3.0).abs() < 0.01, "{moved}");
}

#[test]
fn features_and_masks_are_chosen_by_their_names() {
    let settings = Settings::default();
    let mut panel = panel(Theme::Dark, 1.0, settings);
    panel.state_mut().compute.form = RowForm::Row;
    panel.get_by_label("FAVOR+").click();
    panel.run();
    assert_eq!(panel.state().compute.similarity, Similarity::FavorPlus);
    assert_eq!(panel.state().compute.form, RowForm::None, "rows of features are not whitened");
    assert!(panel.query_by_label_contains("FAVOR+ has no bandwidth").is_some());
    by_role(&panel, Role::Slider, "Random").set_value_accesskit(128.0);
    panel.run();
    let features = panel.state().compute.random_features;
    assert!((100..160).contains(&features), "{features}");
    panel.get_by_label("Laplacian").click();
    panel.run();
    panel.state_mut().compute.form = RowForm::Col;
    panel.run();
    by_role(&panel, Role::ComboBox, "Mask").click();
    panel.run();
    panel.get_by_label("By distance").click();
    panel.run();
    let compute = panel.state().compute.clone();
    assert_eq!(compute.mask.to_string(), "toeplitz:gauss,size=4,distance=l2");
    assert_eq!(compute.form, RowForm::None);
    assert!(panel.query_by_label_contains("Column was set back to none").is_some());
    for (label, wanted) in [
        ("Square", "toeplitz:gauss,size=4,distance=linf"),
        ("Torus", "toeplitz:gauss,size=4,distance=linf,torus"),
        ("Causal", "toeplitz:gauss,size=4,distance=linf,torus,causal"),
    ] {
        panel.get_by_label(label).click();
        panel.run();
        assert_eq!(panel.state().compute.mask.to_string(), wanted);
    }
    by_role(&panel, Role::ComboBox, "Profile").click();
    panel.run();
    panel.get_by_label("Triangle").click();
    panel.run();
    by_role(&panel, Role::Slider, "Size").set_value_accesskit(9.0);
    panel.run();
    let text = panel.state().compute.mask.to_string();
    assert!(text.starts_with("toeplitz:triangle,size=9"), "{text}");
    for (kind, wanted) in [
        ("Separable", "separable:size=4"),
        ("Decay", "decay:0.95"),
        ("By hand", "stencil:5x5,0/0/1/0/0/0/0/1/0/0/1/1/1/1/1/0/0/1/0/0/0/0/1/0/0"),
        ("None", "none"),
    ] {
        by_role(&panel, Role::ComboBox, "Mask").click();
        panel.run();
        // A preset of the same name, or the normalisation, may stand beside it: the list is drawn last.
        panel.get_all_by_label(kind).last().expect("it is listed").click();
        panel.run();
        assert_eq!(panel.state().compute.mask.to_string(), wanted);
        picture(&mut panel, &format!("panel-mask-{kind}"));
    }
}

#[test]
fn a_number_is_typed_and_a_double_click_resets_it() {
    let mut panel = panel(Theme::Dark, 1.0, Settings::default());
    by_role(&panel, Role::SpinButton, "Grid side").click();
    panel.run();
    panel.get_by_role_and_label(Role::SpinButton, "Grid side").type_text("11");
    panel.key_press(egui::Key::Enter);
    panel.run();
    assert_eq!(panel.state().compute.landmark_side, 11);
    assert!(panel.query_by_label_contains("121 landmarks").is_some());
    let label = by_role(&panel, Role::Label, "Grid side").rect().center();
    double_click(&mut panel, label);
    assert_eq!(panel.state().compute.landmark_side, 7);
    let rail = by_role(&panel, Role::Slider, "Diagonal ε").rect();
    double_click(&mut panel, rail.left_center() + egui::vec2(8.0, 0.0));
    assert_eq!(panel.state().compute.epsilon, 1e-3);
}

fn double_click<S>(harness: &mut Harness<'_, S>, at: egui::Pos2) {
    // Earlier clicks must be long ago, or these would be the second and third.
    harness.run_steps(60);
    for _ in 0..2 {
        let button = |pressed| egui::Event::PointerButton {
            pos: at,
            button: egui::PointerButton::Primary,
            pressed,
            modifiers: egui::Modifiers::NONE,
        };
        harness.event(egui::Event::PointerMoved(at));
        harness.event(button(true));
        harness.event(button(false));
    }
    harness.run();
}

#[test]
fn shift_drags_finely() {
    let drag = |modifiers: egui::Modifiers| {
        let mut panel = panel(Theme::Dark, 1.0, Settings::default());
        let rail = by_role(&panel, Role::Slider, "Opacity").rect();
        // The handle's own place, so that pressing alone changes nothing.
        let from = egui::pos2(rail.left() + 8.0 + 0.72 * (rail.width() - 16.0), rail.center().y);
        panel.event(egui::Event::ModifiersChanged(modifiers));
        panel.event(egui::Event::PointerMoved(from));
        panel.event(egui::Event::PointerButton {
            pos: from,
            button: egui::PointerButton::Primary,
            pressed: true,
            modifiers,
        });
        for x in [10.0, 20.0] {
            panel.event(egui::Event::PointerMoved(from - egui::vec2(x, 0.0)));
        }
        panel.run();
        panel.state().look.opacity
    };
    let (plain, fine) = (0.72 - drag(egui::Modifiers::NONE), 0.72 - drag(egui::Modifiers::SHIFT));
    assert!(plain > 0.1, "20 points of a rail of about a hundred: {plain}");
    assert!(fine > 0.005 && fine < plain / 5.0, "fine {fine}, plain {plain}");
}

#[test]
fn what_does_not_exist_for_a_combination_cannot_be_chosen() {
    let mut panel = panel(Theme::Dark, 1.0, Settings::default());
    by_role(&panel, Role::ComboBox, "Normalisation").click();
    panel.run();
    assert!(panel.get_by_label("Sum").accesskit_node().is_disabled(), "Nyström rows have no sum");
    assert!(!panel.get_by_label("SOFT++").accesskit_node().is_disabled());
    picture(&mut panel, "panel-normalisation-dark");
    panel.get_by_label("SOFT++").click();
    panel.run();
    assert_eq!(panel.state().compute.form, RowForm::Softpp);
    // Exact rows have no such form: it goes, and a line says so.
    panel.get_by_label("Exact").click();
    panel.run();
    assert_eq!(panel.state().compute.form, RowForm::None);
    assert!(panel.query_by_label_contains("SOFT++ was set back to none").is_some());
    picture(&mut panel, "panel-set-back-dark");
    panel.get_by_label("Softmax").click();
    panel.run();
    assert!(panel.get_by_label("Nyström").accesskit_node().is_disabled(), "softmax rows are exact");
    assert!(panel.query_by_label_contains("Softmax has no bandwidth").is_some());
}

#[test]
fn a_head_is_chosen_by_name_and_goes_with_the_heads() {
    let mut panel = panel(Theme::Light, 1.0, Settings::default());
    by_role(&panel, Role::ComboBox, "Heads shown").click();
    panel.run();
    panel.get_by_label("Head 4").click();
    panel.run();
    assert_eq!(panel.state().look.fusion, Fusion::Head(3));
    panel.get_by_label("Tokens and heads").click();
    panel.run();
    by_role(&panel, Role::Slider, "Heads").set_value_accesskit(2.0);
    panel.run();
    assert_eq!(panel.state().compute.heads, 2);
    assert_eq!(panel.state().look.fusion, Fusion::Head(1));
}

#[test]
fn a_device_is_chosen_and_a_missing_one_is_named() {
    let settings = Settings { device: Device::Named("Old card".into()), ..Settings::default() };
    let mut panel = panel(Theme::Light, 1.0, settings);
    let combo = by_role(&panel, Role::ComboBox, "Compute on");
    assert_eq!(combo.value().as_deref(), Some("Old card (not found)"));
    // The last section of the panel: one scrolls there.
    combo.scroll_to_me();
    panel.run();
    by_role(&panel, Role::ComboBox, "Compute on").click();
    panel.run();
    panel.get_by_label("CPU reference").click();
    panel.run();
    assert_eq!(panel.state().device, Device::Named("cpu".into()));
}

#[test]
fn a_device_of_cuda_that_is_not_offered_is_called_by_its_word() {
    for word in ["cuda:host", "cuda:0:tf32"] {
        let settings = Settings { device: Device::Named(word.into()), ..Settings::default() };
        let panel = panel(Theme::Light, 1.0, settings);
        assert_eq!(by_role(&panel, Role::ComboBox, "Compute on").value().as_deref(), Some(word));
    }
}

/// A bar with its menus, the help window, and what was asked for.
#[derive(Default)]
struct Shell {
    asked: Vec<Action>,
    help: bool,
    text: String,
}

fn shell<'a>(size: [f32; 2], theme: Theme, scale: f32) -> Harness<'a, Shell> {
    let draw = |ui: &mut egui::Ui, shell: &mut Shell| {
        let ctx = ui.ctx().clone();
        shell.asked.extend(actions::pressed(&ctx));
        egui::Panel::top("menu").show(ui, |ui| {
            shell.asked.extend(actions::menu_bar(ui, |action| action != Action::Redo));
        });
        if !shell.text.is_empty() {
            let label = ui.label("Name").id;
            ui.text_edit_singleline(&mut shell.text).labelled_by(label);
        }
        actions::help_window(&ctx, &mut shell.help);
    };
    harness(size, theme, scale, draw, Shell::default())
}

#[test]
fn every_action_is_in_a_menu_and_can_be_clicked() {
    for info in ACTIONS {
        let mut shell = shell([900.0, 760.0], Theme::Dark, 1.0);
        shell.run();
        for menu in info.menu {
            let button = shell
                .get_all_by_role(Role::Button)
                .find(|node| node.accesskit_node().label().as_deref() == Some(*menu));
            button.unwrap_or_else(|| panic!("{menu} is there")).click();
            shell.run();
        }
        let entry = shell.get_by(|node| {
            let label = node.label().unwrap_or_default();
            let rest = label.strip_prefix(info.name).map(str::trim);
            // The menu prints the first key behind the name.
            let first = info.keys.first().map(|key| actions::key_name(&shell.ctx, key));
            let printed = first.or_else(|| info.gesture.map(str::to_string)).unwrap_or_default();
            node.role() == Role::Button && rest == Some(&printed)
        });
        let enabled = info.action != Action::Redo;
        assert_eq!(entry.accesskit_node().is_disabled(), !enabled, "{}", info.name);
        if enabled {
            entry.click();
            shell.run();
            assert_eq!(shell.state().asked, [info.action], "{}", info.name);
        }
    }
}

#[test]
fn every_key_does_what_the_list_says() {
    for info in ACTIONS {
        for key in info.keys {
            let mut shell = shell([600.0, 400.0], Theme::Dark, 1.0);
            shell.run();
            shell.key_press_modifiers(key.modifiers, key.logical_key);
            shell.run();
            assert_eq!(shell.state().asked, [info.action], "{key:?}");
            assert!(shell.ctx.memory(|memory| memory.focused().is_none()), "{key:?} moved the focus");
        }
    }
}

#[test]
fn keys_belong_to_a_text_field_while_it_is_typed_into() {
    let mut shell = shell([600.0, 400.0], Theme::Dark, 1.0);
    shell.state_mut().text = "abc".into();
    shell.run();
    shell.get_by_role(Role::TextInput).click();
    shell.run();
    for (modifiers, key) in [
        (egui::Modifiers::NONE, egui::Key::Space),
        (egui::Modifiers::NONE, egui::Key::R),
        (egui::Modifiers::COMMAND, egui::Key::Z),
        (egui::Modifiers::COMMAND, egui::Key::V),
        (egui::Modifiers::NONE, egui::Key::Num1),
    ] {
        shell.key_press_modifiers(modifiers, key);
        shell.run();
    }
    assert_eq!(shell.state().asked, []);
    shell.key_press_modifiers(egui::Modifiers::COMMAND, egui::Key::S);
    shell.run();
    assert_eq!(shell.state().asked, [Action::SaveView]);
}

#[test]
fn a_paste_counts_once_however_the_window_system_tells_it() {
    let ctrl = egui::Modifiers::COMMAND;
    let key = |pressed| egui::Event::Key {
        key: egui::Key::V,
        physical_key: None,
        pressed,
        repeat: false,
        modifiers: ctrl,
    };
    let pixel = egui::ColorImage::filled([1, 1], egui::Color32::BLACK);
    let image = egui::Event::PasteImage(pixel.into());
    for (events, asked) in [
        (vec![key(true), key(false)], vec![Action::PasteImage]),
        (vec![key(false)], vec![Action::PasteImage]),
        (vec![egui::Event::Paste("text".into()), key(false)], vec![Action::PasteImage]),
        // The picture is there already; asking for it again would never end.
        (vec![image.clone(), key(false)], vec![]),
        (vec![image], vec![]),
    ] {
        let mut shell = shell([600.0, 400.0], Theme::Dark, 1.0);
        shell.run();
        for event in events {
            shell.event_modifiers(event, ctrl);
            shell.step();
        }
        shell.run();
        assert_eq!(shell.state().asked, asked);
    }
}

#[test]
fn the_help_lists_every_action_with_all_its_keys() {
    for theme in THEMES {
        for scale in [1.0, 2.0] {
            let mut shell = shell([1280.0, 800.0], theme, scale);
            shell.state_mut().help = true;
            shell.run();
            shell.run();
            for info in ACTIONS.iter().filter(|info| !matches!(info.action, Action::Head(_))) {
                let label = info.name.trim_end_matches('…');
                assert!(shell.query_all_by_label(label).next().is_some(), "{label}");
                for key in info.keys {
                    let text = actions::key_name(&shell.ctx, key);
                    assert!(shell.query_all_by_label_contains(&text).next().is_some(), "{text}");
                }
            }
            assert!(shell.query_by_label("Head 1 to 9").is_some());
            for Line { section, what, how, .. } in LINES {
                for text in [section, what, how] {
                    assert!(shell.query_all_by_label(text).next().is_some(), "{text}");
                }
            }
            picture(&mut shell, &format!("help-{}", name(theme, scale)));
            shell.key_press(egui::Key::Escape);
            shell.run();
            assert!(!shell.state().help);
        }
    }
    let mut narrow = shell([560.0, 420.0], Theme::Dark, 1.0);
    narrow.state_mut().help = true;
    narrow.run();
    narrow.run();
    picture(&mut narrow, "help-narrow-dark");
}

#[test]
fn the_menus_are_drawn_with_their_keys() {
    for theme in THEMES {
        for menu in ["File", "View"] {
            let mut shell = shell([700.0, 620.0], theme, 1.0);
            shell.run();
            shell.get_by_label(menu).click();
            shell.run();
            picture(&mut shell, &format!("menu-{menu}-{}", name(theme, 1.0)));
        }
    }
}

fn status_facts() -> StatusFacts {
    StatusFacts { dropped: Some(3), ..StatusFacts::of(Some(&snapshot())) }
}

fn status_bar<'a>(
    width: f32,
    theme: Theme,
    scale: f32,
    facts: StatusFacts,
) -> Harness<'a, Option<StatusRequest>> {
    let draw = move |ui: &mut egui::Ui, asked: &mut Option<StatusRequest>| {
        egui::Panel::bottom("status").show(ui, |ui| {
            if let Some(request) = status::bar(ui, &facts) {
                *asked = Some(request);
            }
        });
    };
    let mut harness = harness([width, 44.0], theme, scale, draw, None);
    harness.run_steps(4);
    harness
}

#[test]
fn the_status_bar_tells_everything_in_one_line() {
    let states = [
        ("still", SourceState::Still, None),
        ("frozen", SourceState::Frozen(Duration::from_secs(4)), None),
        (
            "busy",
            SourceState::Playing("Camera · 30 fps".into()),
            Some(Busy { what: "Exact rows".into(), progress: Some((312, 1024)), can_cancel: true }),
        ),
    ];
    for theme in THEMES {
        for scale in [1.0, 2.0] {
            for (state, source, busy) in states.clone() {
                let mut facts = status_facts();
                facts.source = source;
                facts.busy = busy;
                facts.hidden_keys = (state == "still").then_some(12);
                let mut bar = status_bar(1280.0, theme, scale, facts);
                for text in [
                    "software driver",
                    "8 × 6 = 48 tokens",
                    "49 landmarks",
                    "33.2 MiB",
                    "error 3.12 %",
                    "3 dropped",
                ] {
                    assert!(bar.query_by_label_contains(text).is_some(), "{state}: {text}");
                }
                let masked = bar.query_by_label_contains("mask hides 12 of 48 tokens").is_some();
                assert_eq!(masked, state == "still", "{state}: a mask in force is told");
                picture(&mut bar, &format!("status-{state}-{}", name(theme, scale)));
            }
        }
    }
    let mut narrow = status_bar(700.0, Theme::Dark, 1.0, status_facts());
    picture(&mut narrow, "status-narrow-dark");
    let mut empty = status_bar(1280.0, Theme::Dark, 1.0, StatusFacts::default());
    assert!(empty.query_by_label("No map yet").is_some());
    picture(&mut empty, "status-empty-dark");
}

#[test]
fn long_work_is_cancelled_from_the_status_bar() {
    let mut facts = status_facts();
    facts.busy = Some(Busy { what: "Building pipelines".into(), progress: None, can_cancel: true });
    let mut bar = status_bar(1280.0, Theme::Light, 1.0, facts);
    bar.get_by_label("Cancel").click();
    bar.run_steps(3);
    assert_eq!(*bar.state(), Some(StatusRequest::Cancel));
}

#[test]
fn the_probe_is_drawn_with_value_share_and_rank() {
    for theme in THEMES {
        let probe = probe::describe(&snapshot(), UVec2::new(36, 20)).expect("inside");
        let draw = move |ui: &mut egui::Ui, (): &mut ()| {
            egui::CentralPanel::default().show(ui, |ui| probe::ui(ui, &probe));
        };
        let mut seen = harness([300.0, 200.0], theme, 2.0, draw, ());
        seen.run();
        assert!(seen.query_by_label("Map − exact").is_some() && seen.query_by_label("sink").is_some());
        picture(&mut seen, &format!("probe-{}", name(theme, 2.0)));
    }
}

/// A view with a page of its own.
struct Tails;

impl View for Tails {
    fn id(&self) -> &'static str {
        "tails"
    }
    fn title(&self) -> &'static str {
        "Distances"
    }
    fn about(&self) -> &'static str {
        "Histogram of distances."
    }
    fn ui(&mut self, _: &mut egui::Ui, _: &mut ViewContext<'_>) {}
    fn tour(&self) -> Vec<TourPage> {
        vec![TourPage {
            title: "Laplacian or Gaussian",
            formula: "exp(−‖q − k‖₁ / λ),  exp(−‖q − k‖² / λ)",
            text: "Both fall from 1 with the distance.\n\nThe Laplacian keeps a tail.",
            prepare: |settings| settings.compute.similarity = Similarity::Gaussian,
        }]
    }
}

struct TourState {
    tour: Tour,
    settings: Settings,
    asked: Vec<TourRequest>,
}

fn tour<'a>(theme: Theme, scale: f32) -> Harness<'a, TourState> {
    let views: Vec<Box<dyn View>> = vec![Box::new(Tails)];
    let pages: Vec<Page> = pages(&views);
    let mut tour = Tour::default();
    tour.start();
    let draw = move |ui: &mut egui::Ui, state: &mut TourState| {
        let ctx = ui.ctx().clone();
        egui::CentralPanel::default().show(ui, |_| {});
        state.asked.extend(state.tour.show(&ctx, &pages, &mut state.settings));
    };
    harness(
        [800.0, 560.0],
        theme,
        scale,
        draw,
        TourState { tour, settings: Settings::default(), asked: vec![] },
    )
}

#[test]
fn the_tour_goes_through_the_pages_of_the_views() {
    for theme in THEMES {
        for scale in [1.0, 2.0] {
            let mut seen = tour(theme, scale);
            seen.run();
            assert!(seen.query_by_label("Attention of a pixel").is_some());
            assert_eq!(seen.state().asked, [TourRequest::OpenView("tails")]);
            assert!(seen.get_by_label("Back").accesskit_node().is_disabled());
            picture(&mut seen, &format!("tour-first-{}", name(theme, scale)));
            seen.get_by_label("Next").click();
            seen.run();
            assert!(seen.query_by_label("Laplacian or Gaussian").is_some());
            assert_eq!(seen.state().settings.compute.similarity, Similarity::Gaussian);
            picture(&mut seen, &format!("tour-last-{}", name(theme, scale)));
            // What the reader changes on a page stays.
            seen.state_mut().settings.compute.similarity = Similarity::Laplacian;
            seen.run();
            assert_eq!(seen.state().settings.compute.similarity, Similarity::Laplacian);
            seen.get_by_label("Finish").click();
            seen.run();
            assert!(!seen.state().tour.is_open());
            assert_eq!(seen.state().asked.last(), Some(&TourRequest::Ended));
        }
    }
}

#[test]
fn the_tour_can_be_skipped_and_gone_back_in() {
    let mut seen = tour(Theme::Dark, 1.0);
    seen.run();
    seen.get_by_label("Next").click();
    seen.run();
    seen.get_by_label("Back").click();
    seen.run();
    assert!(seen.query_by_label("Attention of a pixel").is_some());
    seen.get_by_label("Skip tour").click();
    seen.run();
    assert!(!seen.state().tour.is_open());
}

/// Text under the pointer is drawn only when somebody rests there: a letter that no font has would be found by a user.
#[test]
fn the_fonts_have_every_letter_that_the_explorer_writes() {
    fn sources(folder: &std::path::Path, list: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("the sources").flatten() {
            match entry.path() {
                path if path.is_dir() => sources(&path, list),
                path => list.push(path),
            }
        }
    }
    let mut files = Vec::new();
    sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/explorer"), &mut files);
    let harness = harness([100.0, 100.0], Theme::Dark, 1.0, |_: &mut egui::Ui, (): &mut ()| {}, ());
    let font = egui::FontId::proportional(13.0);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for letter in code.flat_map(str::chars).filter(|c| !c.is_ascii()) {
            // Formulae set raised and lowered letters as small ordinary ones.
            let layout = widgets::formula_layout(&letter.to_string(), 13.0, egui::Color32::WHITE);
            let has = |text: &str| harness.ctx.fonts_mut(|fonts| fonts.has_glyphs(&font, text));
            assert!(has(&letter.to_string()) || has(&layout.text), "{letter:?} in {}", file.display());
        }
    }
}
