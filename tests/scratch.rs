//! Scratch pictures.
mod explorer_driver;
use eframe::egui::{self, pos2, vec2};
use explorer_driver::{drawn, open_scaled, settle};
use wgattn::explorer::Options;
fn folder() -> std::path::PathBuf {
    let p = std::path::PathBuf::from("/tmp/polish-shots");
    std::fs::create_dir_all(&p).ok();
    p
}
#[test]
fn tiles() {
    let views: Vec<String> = ["attention", "compare", "schedule", "distances"].map(String::from).to_vec();
    let options = Options { sources: vec![drawn("views.png", 160, 120)], views, ..Options::default() };
    let mut h = open_scaled(options, vec2(1280.0, 800.0), 1.0);
    settle(&mut h);
    h.run_steps(4);
    h.render().expect("x").save(folder().join("tiles.png")).expect("s");
    let _ = (egui::Theme::Dark, pos2(0.0, 0.0));
}
