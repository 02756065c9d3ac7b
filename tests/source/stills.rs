//! Still pictures and folders of them: formats, sizes, orientations, order, and names that lead nowhere.

use std::fs;

use glam::UVec2;
use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage};
use wgattn::source::{Kind, Next};

use super::{Folder, assert_end, assert_near, encoded, failure, frame, one_line, opened, pixel, refused};

/// C29, the way of files; the way to the screen is in tests/explorer_window.rs.
#[test]
fn a_grey_ramp_comes_through_every_lossless_format() {
    let folder = Folder::new("ramp");
    let ramp = GrayImage::from_fn(256, 4, |x, _| image::Luma([x as u8]));
    for (suffix, format) in [
        ("png", ImageFormat::Png),
        ("bmp", ImageFormat::Bmp),
        ("tiff", ImageFormat::Tiff),
        ("webp", ImageFormat::WebP),
        ("gif", ImageFormat::Gif),
    ] {
        let colour = DynamicImage::from(ramp.clone()).to_rgb8();
        let mut source = opened(&folder.write(&format!("ramp.{suffix}"), encoded(colour, format)));
        assert_eq!(source.kind(), Kind::Still);
        let frame = frame(source.as_mut());
        assert_eq!((frame.index, frame.shown_for), (0, None));
        for x in 0..256 {
            assert_near(pixel(&frame, x, 2), [x as u8; 3], 1);
        }
        assert_end(source.as_mut());
        source.go_to(0).expect("the one picture can be had again");
        let again = source.next();
        assert!(matches!(again, Ok(Next::Frame(_))), "{again:?}");
    }
}

/// C30: 8193 × 3 and 3 × 20 000.
#[test]
fn pictures_longer_than_8192_keep_their_size_and_say_how_they_are_shown() {
    let folder = Folder::new("large");
    for (width, height) in [(8193, 3), (3, 20_000)] {
        let path = folder.write("large.png", encoded(GrayImage::new(width, height), ImageFormat::Png));
        let frame = frame(opened(&path).as_mut());
        assert_eq!(frame.photo.size(), UVec2::new(width, height));
        let notice = frame.photo.display(8192).notice().expect("it is shown reduced");
        assert!(notice.starts_with("shown at 1:"), "{notice}");
    }
}

/// C31.
#[test]
fn all_eight_orientations_are_turned_upright() {
    let folder = Folder::new("orientation");
    // Where the stored picture has the corner that is shown at the upper left.
    let corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 1), (1, 1), (1, 0)];
    for (orientation, (right, bottom)) in (1_u16..).zip(corners) {
        let stored = RgbImage::from_fn(64, 32, |x, y| {
            let in_corner = (x < 16) == (right == 0) && !(16..48).contains(&x) && (y < 16) == (bottom == 0);
            if in_corner { Rgb([230, 20, 20]) } else { Rgb([120, 120, 120]) }
        });
        let jpeg = encoded(stored, ImageFormat::Jpeg);
        let mut exif = b"\xff\xe1\x00\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01".to_vec();
        exif.extend(orientation.to_be_bytes());
        exif.extend([0; 6]);
        let file = [&jpeg[..2], &exif, &jpeg[2..]].concat();
        let frame = frame(opened(&folder.write("turned.jpg", file)).as_mut());
        let size = if orientation < 5 { UVec2::new(64, 32) } else { UVec2::new(32, 64) };
        assert_eq!(frame.photo.size(), size, "orientation {orientation}");
        assert_near(pixel(&frame, 4, 4), [230, 20, 20], 25);
        for (x, y) in [(size.x - 4, 4), (4, size.y - 4), (size.x - 4, size.y - 4)] {
            assert_near(pixel(&frame, x, y), [120; 3], 25);
        }
    }
}

#[test]
fn a_folder_is_gone_through_in_natural_order_past_a_corrupt_picture() {
    let folder = Folder::new("folder");
    for (name, red) in [("10.png", 10), ("2.png", 2), ("1.PNG", 1)] {
        folder.flat(name, [red, 0, 0]);
    }
    folder.write("3.png", b"\x89PNG\r\n\x1a\n broken");
    folder.write("notes.txt", "no picture");
    let mut source = opened(&folder.0.display().to_string());
    assert_eq!(source.kind(), Kind::Folder { count: 4 });
    assert_eq!(source.name(), "folder");
    let mut reds = Vec::new();
    for _ in 0..2 {
        let frame = frame(source.as_mut());
        assert_eq!(frame.shown_for, None);
        reds.push(pixel(&frame, 0, 0)[0]);
    }
    let error = failure(source.as_mut());
    assert!(error.contains("3.png"), "{error}");
    let last = frame(source.as_mut());
    reds.push(pixel(&last, 0, 0)[0]);
    assert_eq!((reds, last.index), (vec![1, 2, 10], 3));
    assert_end(source.as_mut());

    source.go_to(1).expect("the second picture");
    assert_eq!(pixel(&frame(source.as_mut()), 0, 0)[0], 2);
    let error = source.go_to(4).expect_err("there are four");
    assert!(one_line(&error).contains("0 to 3"), "{error}");
}

#[test]
fn names_that_lead_nowhere_are_refused_with_a_remedy() {
    let folder = Folder::new("nowhere");
    let empty = folder.at("empty");
    fs::create_dir(&empty).expect("an empty folder");
    for (what, words) in [
        (empty.as_str(), "no pictures there"),
        ("no such file.png", "check the path"),
        (&folder.at("%04d.png"), "no pictures there"),
        (&folder.at("*.jpg"), "no pictures there"),
        (&folder.write("text.png", "hello"), "not a picture"),
        ("screen:1,2", "X,Y,WIDTHxHEIGHT"),
    ] {
        let error = refused(what);
        assert!(error.contains(words), "{what}: {error}");
    }
}
