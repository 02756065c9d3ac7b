//! The shell around the views, driven by its labels as a user would: side panel, menu, help, status bar, tour, in both
//! themes. With `WGATTN_GALLERY=FOLDER` the tests leave pictures of what they saw there.

use eframe::egui::accesskit::Role;
use eframe::egui::{self, Theme, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use wgattn::explorer::panel::{PanelFacts, controls, form_problem};
use wgattn::explorer::settings::{Device, Fusion, Range, Road, RowForm, Settings, Similarity};
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
            let mut harness = panel(theme, scale, Settings::default());
            picture(&mut harness, &format!("panel-{}", name(theme, scale)));
        }
    }
}
