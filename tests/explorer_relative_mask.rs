//! The view of masks of relative positions, driven as a user would: handles, tables by hand, what goes with what, sessions.

mod explorer_driver;

use eframe::egui::{self, Key, Modifiers, PointerButton, Pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use explorer_driver::{click, drawn, file, open, settle};
use std::path::PathBuf;
use wgattn::explorer::session::Session;
use wgattn::explorer::settings::{Compute, Device, RowForm, Similarity};
use wgattn::explorer::snapshot::{Guard, LayerId, MaskWay};
use wgattn::explorer::{App, Options};
use wgattn::mask::{MaskSpec, RelativeTable};

/// The view over a picture of 160 × 120 pixels in 20 × 15 tokens, with these settings.
fn opened(size: egui::Vec2, change: impl FnOnce(&mut Compute)) -> Harness<'static, App> {
    let sources = vec![drawn("relative-mask.png", 160, 120)];
    let mut harness =
        open(Options { sources, views: vec!["relative-mask".into()], ..Options::default() }, size);
    settle(&mut harness);
    change(&mut harness.state_mut().document_mut().settings.compute);
    settle(&mut harness);
    harness.run_steps(2);
    harness
}

fn view(mask: &str) -> Harness<'static, App> {
    let mask = spec(mask);
    opened(vec2(1280.0, 800.0), |c| {
        c.similarity = Similarity::Elu;
        c.mask = mask;
    })
}

fn spec(text: &str) -> MaskSpec {
    text.parse().expect(text)
}

/// Keeps a picture to be looked at, where that is asked for.
fn keep(harness: &mut Harness<'_, App>, name: &str) {
    if let Some(folder) = std::env::var_os("WGATTN_KEEP_IMAGES") {
        let picture = harness.render().expect("a picture of the window");
        picture.save(PathBuf::from(folder).join(format!("{name}.png"))).expect("kept to be looked at");
    }
}

#[test]
fn it_can_be_read_in_windows_of_all_sizes() {
    for (theme, name) in [(egui::Theme::Dark, "dark"), (egui::Theme::Light, "light")] {
        for (mask, kind) in [
            ("toeplitz:gauss,size=4,torus", "gauss"),
            (
                "stencil:7x7,0/0/0/1/0/0/0/0/0/0/1/0/0/0/0/0/0.5/1/0.5/0/0/1/1/1/1/1/1/1/0/0/0.5/1/0.5/0/0/0/0/0/1/0/0/0/0/0/0/1/0/0/0",
                "hand",
            ),
            ("separable:rows=2,cols=5", "separable"),
            ("none", "none"),
        ] {
            for size in [vec2(1280.0, 800.0), vec2(640.0, 420.0), vec2(900.0, 700.0)] {
                if size.x != 1280.0 && (kind == "separable" || name == "light") {
                    continue;
                }
                let mut harness = view(mask);
                harness.ctx.set_theme(theme);
                harness.set_size(size);
                settle(&mut harness);
                harness.run_steps(4);
                assert!(harness.state().failure().is_none(), "{:?}", harness.state().failure());
                keep(&mut harness, &format!("relative-{kind}-{name}-{}", size.x));
                if size.x < 900.0 && kind == "hand" {
                    for part in ["Maps", "Table", "Matrix and spectrum"] {
                        harness.get_by_label(part).click();
                        harness.run_steps(3);
                        keep(&mut harness, &format!("relative-{kind}-{name}-{}-{part}", size.x));
                    }
                }
            }
        }
    }
}
