//! Cameras and the screen as the system has them.

#![cfg(target_os = "linux")]

use glam::UVec2;
use wgattn::source::Kind;

use super::{frame, opened, refused};

#[test]
fn a_device_that_is_no_camera_is_refused() {
    for device in ["camera:/dev/null", "camera:63", "camera:/no/such/device"] {
        let error = refused(device);
        assert!(error.contains("cannot read camera /") && error.contains("; "), "{device}: {error}");
    }
}

#[test]
fn the_screen_is_read_where_there_is_one_and_otherwise_said_to_be_missing() {
    if std::env::var_os("DISPLAY").is_none_or(|display| display.is_empty()) {
        let error = refused("screen");
        assert!(error.contains("DISPLAY is not set") || error.contains("Wayland"), "{error}");
        return;
    }
    let mut source = opened("screen:3,5,40x20");
    assert_eq!(source.kind(), Kind::Live);
    for index in 0..2 {
        let frame = frame(source.as_mut());
        assert_eq!((frame.index, frame.photo.size()), (index, UVec2::new(40, 20)));
    }
    let error = refused("screen:0,0,60000x20");
    assert!(error.contains("expected a part of the screen"), "{error}");
}
