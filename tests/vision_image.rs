//! Decoding of photographs: every format and sample kind, orientation, broken files, area average.

use std::io::Cursor;

use glam::UVec2;
use image::{DynamicImage, GrayImage, ImageBuffer, ImageFormat, Luma, LumaA, Rgb, RgbImage, Rgba, RgbaImage};
use wgattn::vision::colour::{linear_to_srgb, srgb_to_linear};
use wgattn::vision::image::{ImageError, Photo};

/// Writes a baseline JPEG whose 8 × 8 blocks are flat: DC coefficients only, one fixed Huffman code per category.
struct FlatJpeg {
    width: u16,
    height: u16,
    /// Horizontal and vertical sampling factor per component.
    sampling: Vec<(u8, u8)>,
    adobe_transform: Option<u8>,
    exif_orientation: Option<u16>,
}

impl FlatJpeg {
    fn new(width: u16, height: u16, components: usize) -> Self {
        let sampling = vec![(1, 1); components];
        Self { width, height, sampling, adobe_transform: None, exif_orientation: None }
    }

    /// `value(component, block_column, block_row)`, blocks counted in the component's own samples.
    fn encode(&self, value: impl Fn(usize, usize, usize) -> u8) -> Vec<u8> {
        let mut out = vec![0xff, 0xd8];
        let mut segment = |marker: u8, payload: &[u8]| {
            out.extend([0xff, marker]);
            out.extend(((payload.len() + 2) as u16).to_be_bytes());
            out.extend(payload);
        };
        if let Some(orientation) = self.exif_orientation {
            let mut exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01".to_vec();
            exif.extend(orientation.to_be_bytes());
            exif.extend([0, 0, 0, 0, 0, 0]);
            segment(0xe1, &exif);
        }
        if let Some(transform) = self.adobe_transform {
            segment(0xee, &[b"Adobe\0\x64\0\0\0\0".as_slice(), &[transform]].concat());
        }
        segment(0xdb, &[&[0u8][..], &[8u8; 64]].concat());
        let mut frame = vec![8];
        frame.extend(self.height.to_be_bytes());
        frame.extend(self.width.to_be_bytes());
        frame.push(self.sampling.len() as u8);
        let mut scan = vec![self.sampling.len() as u8];
        for (i, &(h, v)) in self.sampling.iter().enumerate() {
            frame.extend([i as u8 + 1, h << 4 | v, 0]);
            scan.extend([i as u8 + 1, 0]);
        }
        scan.extend([0, 63, 0]);
        segment(0xc0, &frame);
        // DC: twelve categories, all with 4-bit codes. AC: only "end of block", code 0.
        let lengths =
            |at: usize, count: u8| (1..=16).map(|l| if l == at { count } else { 0 }).collect::<Vec<u8>>();
        segment(0xc4, &[vec![0x00], lengths(4, 12), (0..12).collect()].concat());
        segment(0xc4, &[vec![0x10], lengths(1, 1), vec![0]].concat());
        segment(0xda, &scan);

        let mut bits: Vec<bool> = Vec::new();
        let mut push = |code: u32, count: u32| (0..count).rev().for_each(|b| bits.push(code >> b & 1 == 1));
        let most =
            |factor: fn(&(u8, u8)) -> u8| usize::from(self.sampling.iter().map(factor).max().unwrap_or(1));
        let mcu_cols = usize::from(self.width).div_ceil(8 * most(|s| s.0));
        let mcu_rows = usize::from(self.height).div_ceil(8 * most(|s| s.1));
        let mut previous = vec![0i32; self.sampling.len()];
        for row in 0..mcu_rows {
            for col in 0..mcu_cols {
                for (c, &(h, v)) in self.sampling.iter().enumerate() {
                    let (h, v) = (usize::from(h), usize::from(v));
                    for block in 0..h * v {
                        let dc = i32::from(value(c, col * h + block % h, row * v + block / h)) - 128;
                        let difference = dc - previous[c];
                        previous[c] = dc;
                        let category = 32 - difference.unsigned_abs().leading_zeros();
                        push(category, 4);
                        let code = if difference < 0 { difference - 1 } else { difference };
                        push(code as u32 & ((1 << category) - 1), category);
                        push(0, 1);
                    }
                }
            }
        }
        bits.resize(bits.len().next_multiple_of(8), true);
        for byte in bits.chunks(8).map(|b| b.iter().fold(0u8, |v, &bit| v << 1 | u8::from(bit))) {
            out.push(byte);
            if byte == 0xff {
                out.push(0);
            }
        }
        out.extend([0xff, 0xd9]);
        out
    }
}

fn encoded(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    picture.into().write_to(&mut Cursor::new(&mut bytes), format).expect("test pictures can be encoded");
    bytes
}

fn gradient(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        Rgb([(x * 7 % 256) as u8, (y * 11 % 256) as u8, ((x + y) % 256) as u8])
    })
}

fn open(bytes: &[u8], name: &str) -> Photo {
    Photo::decode(bytes, name).unwrap_or_else(|e| panic!("{name} must decode: {e}"))
}

fn error(bytes: &[u8], name: &str) -> String {
    let error = Photo::decode(bytes, name).expect_err("must be refused").to_string();
    assert!(!error.contains('\n'), "one line: {error}");
    assert!(error.contains(name), "names the file: {error}");
    error
}

fn pixel(photo: &Photo, x: u32, y: u32) -> [u8; 3] {
    photo.display(u32::MAX).picture.get_pixel(x, y).0
}

fn near(got: [u8; 3], want: [u8; 3]) -> bool {
    got.iter().zip(want).all(|(a, b)| a.abs_diff(b) <= 2)
}

#[test]
fn every_exif_orientation_puts_the_red_corner_where_viewers_show_it() {
    // Corner of the red square after orientation: (right, lower).
    let corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0), (1, 0), (1, 1), (0, 1)];
    for (orientation, (right, lower)) in (1u16..=8).zip(corners) {
        let mut jpeg = FlatJpeg::new(64, 32, 3);
        (jpeg.adobe_transform, jpeg.exif_orientation) = (Some(0), Some(orientation));
        let red = |c, x, y| {
            if x < 2 && y < 1 { [255, 0, 0][c] } else { [0, 0, 255][c] }
        };
        let photo = open(&jpeg.encode(red), "corner.jpg");
        let size = photo.size();
        assert_eq!(
            size,
            if orientation < 5 { UVec2::new(64, 32) } else { UVec2::new(32, 64) },
            "{orientation}"
        );
        for (r, l) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let got = pixel(&photo, r * (size.x - 5) + 2, l * (size.y - 5) + 2);
            let want = if (r, l) == (right, lower) { [255, 0, 0] } else { [0, 0, 255] };
            assert!(near(got, want), "orientation {orientation}, corner ({r}, {l}): {got:?}, want {want:?}");
        }
        // Long side of the 16 × 8 square: along x for 1–4, along y for 5–8.
        let at = |x: u32, y: u32| {
            pixel(
                &photo,
                if right == 1 { size.x - 1 - x } else { x },
                if lower == 1 { size.y - 1 - y } else { y },
            )
        };
        assert_eq!(near(at(12, 3), [255, 0, 0]), orientation < 5, "orientation {orientation}");
        assert_eq!(near(at(3, 12), [255, 0, 0]), orientation >= 5, "orientation {orientation}");
        assert_eq!(u16::from(photo.orientation()), orientation);
    }
}

#[test]
fn orientation_out_of_range_is_no_orientation() {
    let mut jpeg = FlatJpeg::new(16, 8, 1);
    jpeg.exif_orientation = Some(9);
    assert_eq!(open(&jpeg.encode(|_, _, _| 90), "nine.jpg").size(), UVec2::new(16, 8));
}

#[test]
fn cmyk_and_ycck_jpegs_show_red_as_red_and_white_as_white() {
    // Adobe stores the complement: 255 = no ink. Columns of blocks: red, white, black, mid grey by K alone.
    let inks: [[u8; 4]; 4] =
        [[255, 0, 0, 255], [255, 255, 255, 255], [255, 255, 255, 0], [255, 255, 255, 128]];
    let wanted = [[255, 0, 0], [255, 255, 255], [0, 0, 0], [128, 128, 128]];
    let ycck = |ink: [u8; 4], c: usize| {
        let [r, g, b] = [0, 1, 2].map(|i| 255.0 - f64::from(ink[i]));
        let values = [
            0.299 * r + 0.587 * g + 0.114 * b,
            128.0 - 0.168_736 * r - 0.331_264 * g + 0.5 * b,
            128.0 + 0.5 * r - 0.418_688 * g - 0.081_312 * b,
            f64::from(ink[3]),
        ];
        values[c].round().clamp(0.0, 255.0) as u8
    };
    for transform in [0u8, 2] {
        let mut jpeg = FlatJpeg::new(32, 8, 4);
        jpeg.adobe_transform = Some(transform);
        let bytes = jpeg.encode(|c, x, _| if transform == 0 { inks[x][c] } else { ycck(inks[x], c) });
        let photo = open(&bytes, "inks.jpg");
        for (i, want) in (0u32..).zip(wanted) {
            let got = pixel(&photo, i * 8 + 4, 4);
            assert!(near(got, want), "transform {transform}, block {i}: {got:?}, want {want:?}");
        }
    }
}

#[test]
fn subsampled_ycck_keeps_every_block() {
    for sampling in [(2, 1), (1, 2), (2, 2)] {
        for (width, height) in [(16, 16), (41, 33), (50, 24), (64, 8), (129, 65)] {
            let mut jpeg = FlatJpeg::new(width, height, 4);
            (jpeg.adobe_transform, jpeg.sampling) = (Some(2), vec![sampling, (1, 1), (1, 1), sampling]);
            let luma = |x: usize, y: usize| (40 + 37 * (x + 3 * y) % 180) as u8;
            let black = |x: usize, y: usize| (60 + 53 * (2 * x + y) % 195) as u8;
            let bytes = jpeg.encode(|c, x, y| [luma(x, y), 128, 128, black(x, y)][c]);
            let photo = open(&bytes, "sub.jpg");
            for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                let block = (usize::from(x) / 8, usize::from(y) / 8);
                let ink = 255 - u32::from(luma(block.0, block.1));
                let want = [(ink * u32::from(black(block.0, block.1)) / 255) as u8; 3];
                let got = pixel(&photo, x.into(), y.into());
                assert!(near(got, want), "{sampling:?} {width}x{height} ({x}, {y}): {got:?}, want {want:?}");
            }
        }
    }
    let mut odd = FlatJpeg::new(16, 16, 4);
    (odd.adobe_transform, odd.sampling) = (Some(2), vec![(2, 2), (1, 1), (1, 1), (1, 1)]);
    assert!(error(&odd.encode(|_, _, _| 9), "odd.jpg").contains("component sampling [22, 11, 11, 11]"));
}

/// Uncompressed 2 × 1 TIFF with 8-bit samples.
fn tiff(photometric: u16, orientation: u16, samples: &[u8]) -> Vec<u8> {
    let per_pixel = samples.len() as u16 / 2;
    let entries: [(u16, u16, u32); 9] = [
        (256, 3, 2),
        (257, 3, 1),
        (258, 3, 8),
        (262, 3, photometric.into()),
        (273, 4, 0),
        (274, 3, orientation.into()),
        (277, 3, per_pixel.into()),
        (278, 3, 1),
        (279, 4, samples.len() as u32),
    ];
    let after = 8 + 2 + 12 * entries.len() as u32 + 4;
    let bits = [8u8, 0].repeat(per_pixel.into());
    let mut out = b"II*\0\x08\0\0\0".to_vec();
    out.extend((entries.len() as u16).to_le_bytes());
    for (tag, kind, value) in entries {
        let (count, value) = match tag {
            258 if per_pixel > 2 => (u32::from(per_pixel), after),
            273 => (1, after + bits.len() as u32),
            _ => (1, value),
        };
        out.extend(tag.to_le_bytes());
        out.extend(kind.to_le_bytes());
        out.extend(count.to_le_bytes());
        out.extend(value.to_le_bytes());
    }
    out.extend([0; 4]);
    out.extend(bits);
    out.extend(samples);
    out
}

#[test]
fn tiff_cmyk_is_not_inverted_and_tiff_orientation_is_applied() {
    let cmyk = open(&tiff(5, 1, &[0, 255, 255, 0, 0, 0, 0, 0]), "ink.tiff");
    assert!(near(pixel(&cmyk, 0, 0), [255, 0, 0]) && near(pixel(&cmyk, 1, 0), [255; 3]));
    let turned = open(&tiff(2, 6, &[255, 0, 0, 0, 0, 255]), "turned.tiff");
    assert_eq!(turned.size(), UVec2::new(1, 2));
    assert_eq!([pixel(&turned, 0, 0), pixel(&turned, 0, 1)], [[255, 0, 0], [0, 0, 255]]);
}

#[test]
fn four_components_without_adobe_marker_and_two_components_are_refused_with_words() {
    let four = error(&FlatJpeg::new(16, 8, 4).encode(|_, _, _| 200), "four.jpg");
    assert!(four.contains("4 components without Adobe"), "{four}");
    let two = error(&FlatJpeg::new(16, 8, 2).encode(|_, _, _| 200), "two.jpg");
    assert!(two.contains("2 colour components"), "{two}");
}

#[test]
fn grey_rgb_and_alpha_pngs_have_the_values_that_were_written() {
    let grey = GrayImage::from_pixel(3, 2, Luma([77]));
    assert_eq!(pixel(&open(&encoded(grey, ImageFormat::Png), "grey.png"), 2, 1), [77; 3]);
    let rgb = gradient(5, 4);
    assert_eq!(open(&encoded(rgb.clone(), ImageFormat::Png), "rgb.png").display(100).picture, rgb);

    let half = RgbaImage::from_pixel(2, 2, Rgba([0, 0, 0, 128]));
    let got = pixel(&open(&encoded(half, ImageFormat::Png), "half.png"), 0, 0);
    let want = (linear_to_srgb(1.0 - 128.0 / 255.0) * 255.0).round() as u8;
    assert_eq!(got, [want; 3], "black at half alpha over white, mixed in linear light");
    let clear = ImageBuffer::from_pixel(2, 2, LumaA([0u8, 0]));
    let bytes = encoded(DynamicImage::ImageLumaA8(clear), ImageFormat::Png);
    assert_eq!(pixel(&open(&bytes, "clear.png"), 1, 1), [255; 3], "fully transparent is white");
}

#[test]
fn sixteen_bit_samples_keep_their_precision() {
    let codes = [0u16, 1, 2000, 32_768, 32_769, 65_534, 65_535];
    let rgb = ImageBuffer::from_fn(7, 1, |x, _| Rgb([codes[x as usize]; 3]));
    for format in [ImageFormat::Png, ImageFormat::Tiff] {
        let photo = open(&encoded(DynamicImage::ImageRgb16(rgb.clone()), format), "sixteen");
        let linear = photo.working(photo.size()).expect("full size");
        for (i, &code) in codes.iter().enumerate() {
            let want = srgb_to_linear(f64::from(code) / 65_535.0) as f32;
            assert_eq!(linear.samples()[i * 3], want, "code {code}");
        }
    }
    let grey = ImageBuffer::from_pixel(1, 1, Luma([40_000u16]));
    let photo = open(&encoded(DynamicImage::ImageLuma16(grey), ImageFormat::Png), "grey16.png");
    assert_eq!(
        photo.working(UVec2::ONE).expect("full size").samples()[1],
        srgb_to_linear(40_000.0 / 65_535.0) as f32
    );
}

#[test]
fn palettes_are_resolved() {
    // GIF is always a palette; an 8-bit palette BMP is written by hand.
    let two = RgbImage::from_fn(4, 2, |x, _| if x < 2 { Rgb([200, 30, 40]) } else { Rgb([10, 20, 250]) });
    let photo = open(&encoded(two, ImageFormat::Gif), "two.gif");
    assert!(near(pixel(&photo, 0, 0), [200, 30, 40]) && near(pixel(&photo, 3, 1), [10, 20, 250]));

    let mut bmp = b"BM".to_vec();
    for v in [14 + 40 + 8 + 4u32, 0, 14 + 40 + 8, 40, 3, 1] {
        bmp.extend(v.to_le_bytes());
    }
    bmp.extend([1, 0, 8, 0]);
    for v in [0u32, 4, 0, 0, 2, 2] {
        bmp.extend(v.to_le_bytes());
    }
    bmp.extend([40, 30, 200, 0, 250, 20, 10, 0, 1, 0, 1, 0]);
    let photo = open(&bmp, "palette.bmp");
    assert_eq!([0, 1, 2].map(|x| pixel(&photo, x, 0)), [[10, 20, 250], [200, 30, 40], [10, 20, 250]]);
}

#[test]
fn every_format_is_read_by_content_and_a_wrong_suffix_is_a_notice() {
    let picture = gradient(33, 17);
    let formats =
        [ImageFormat::Png, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Bmp, ImageFormat::Tiff];
    for format in formats {
        let bytes = encoded(picture.clone(), format);
        let right = format!("a.{}", format.extensions_str()[0]);
        assert!(open(&bytes, &right).notices().is_empty(), "{right}");
        let photo = open(&bytes, "a.jpg");
        assert_eq!(photo.size(), UVec2::new(33, 17));
        assert!(photo.notices()[0].contains("suffix is .jpg"), "{:?}", photo.notices());
        if format != ImageFormat::Gif {
            assert_eq!(photo.display(4096).picture, picture, "{format:?} is lossless");
        }
    }
}

#[test]
fn awkward_widths_survive_the_round_trip() {
    for width in [1, 50, 63, 64, 65, 4097] {
        let picture = gradient(width, 3);
        let photo = open(&encoded(picture.clone(), ImageFormat::Png), "w.png");
        assert_eq!(photo.display(8192).picture, picture, "width {width}");
        let linear = photo.working(photo.size()).expect("full size");
        for (i, (&byte, &value)) in picture.as_raw().iter().zip(linear.samples()).enumerate() {
            assert_eq!(value, srgb_to_linear(f64::from(byte) / 255.0) as f32, "width {width}, sample {i}");
        }
    }
}

#[test]
fn area_average_counts_partly_covered_pixels_by_their_fraction() {
    let picture = gradient(7, 5);
    let photo = open(&encoded(picture.clone(), ImageFormat::Png), "area.png");
    let (rows, cols) = (3usize, 4usize);
    let got = photo.working(UVec2::new(cols as u32, rows as u32)).expect("a reduction");
    let overlap = |i: usize, out: usize, of: usize, pixel: usize| {
        let (a, b) = (i as f64 * of as f64 / out as f64, (i + 1) as f64 * of as f64 / out as f64);
        (b.min(pixel as f64 + 1.0) - a.max(pixel as f64)).max(0.0)
    };
    for r in 0..rows {
        for c in 0..cols {
            for channel in 0..3 {
                let (mut sum, mut area) = (0.0, 0.0);
                for (x, y, p) in picture.enumerate_pixels() {
                    let w = overlap(r, rows, 5, y as usize) * overlap(c, cols, 7, x as usize);
                    sum += w * srgb_to_linear(f64::from(p.0[channel]) / 255.0);
                    area += w;
                }
                let value = f64::from(got.samples()[(r * cols + c) * 3 + channel]);
                // f32 weights and sums: a few rounding errors of values below 1.
                assert!(
                    (value - sum / area).abs() < 1e-6,
                    "[{r}, {c}, {channel}]: {value}, want {}",
                    sum / area
                );
            }
        }
    }
}

#[test]
fn working_picture_is_never_enlarged() {
    let photo = open(&encoded(gradient(4, 4), ImageFormat::Png), "small.png");
    for size in [UVec2::new(5, 4), UVec2::new(4, 5), UVec2::new(0, 4)] {
        let error = photo.working(size).expect_err("refused").to_string();
        assert!(error.contains("expected 1x1 to 4x4"), "{error}");
    }
}

#[test]
fn large_pictures_are_shown_reduced_and_say_so() {
    for (width, height) in [(8193, 3), (3, 20_000)] {
        let photo = open(&encoded(gradient(width, height), ImageFormat::Png), "long.png");
        let display = photo.display(4096);
        assert!(display.picture.width().max(display.picture.height()) <= 4096);
        assert!(display.notice().expect("a notice").contains(&format!("of {width}x{height} pixels")));
    }
}

#[test]
fn files_cut_short_are_called_truncated() {
    let picture = gradient(64, 64);
    for format in [ImageFormat::Png, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Bmp, ImageFormat::Tiff]
    {
        let bytes = encoded(picture.clone(), format);
        for part in [bytes.len() / 2, bytes.len() * 9 / 10] {
            let text = error(&bytes[..part], "cut.bin");
            assert!(text.contains("truncated"), "{format:?} at {part} of {}: {text}", bytes.len());
        }
    }
    let mut jpeg = FlatJpeg::new(256, 256, 3);
    jpeg.adobe_transform = Some(1);
    let bytes = jpeg.encode(|c, x, y| (c * 40 + x * 5 + y * 3) as u8);
    for part in [3, 20, 200, bytes.len() / 2, bytes.len() - 2] {
        let text = error(&bytes[..part], "cut.jpg");
        assert!(text.contains("truncated"), "at {part}: {text}");
    }
}

#[test]
fn things_that_are_no_pictures_are_named() {
    assert!(error(b"", "empty.png").contains("is empty"));
    assert!(error(b"hello world", "note.png").contains("text beginning"));
    assert!(error(&[0, 1, 2, 3, 4], "noise.png").contains("5 bytes beginning"));
    assert!(error(b"\0\0\0\x18ftypheic\0\0\0\0", "phone.jpg").contains("HEIC"));
    assert!(error(b"\xff", "one.jpg").contains("not a picture"));
    for format in [&b"\x89PNG\r\n\x1a\n"[..], b"GIF89a", b"BM", b"II*\0", b"RIFF\0\0\0\0WEBP"] {
        error(format, "head");
    }
}

#[test]
fn missing_files_and_folders_are_read_errors() {
    let missing = Photo::open("no/such/picture.png").expect_err("missing");
    assert!(
        matches!(missing, ImageError::Read { .. }) && missing.to_string().contains("no/such/picture.png")
    );
    let folder = Photo::open(std::env::temp_dir()).expect_err("a folder");
    assert!(folder.to_string().contains("it is a folder"), "{folder}");
}

/// PNG header with the given size and no pixels to speak of.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], payload: &[u8]| {
        let body = [kind.as_slice(), payload].concat();
        let mut crc = u32::MAX;
        for &byte in &body {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            }
        }
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(&body);
        bytes.extend((!crc).to_be_bytes());
    };
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk(b"IHDR", &[&size[..], &[8, 2, 0, 0, 0]].concat());
    chunk(b"IDAT", &[0x78, 0x9c, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01]);
    chunk(b"IEND", &[]);
    bytes
}

#[test]
fn a_header_that_claims_too_much_is_refused_before_memory_is_taken() {
    let text = error(&png_header(100_000, 100_000), "bomb.png");
    assert!(text.contains("100000x100000 needs 30000000000 bytes"), "{text}");
    let jpeg = FlatJpeg::new(65_000, 65_000, 3);
    let mut head = FlatJpeg::new(8, 8, 3).encode(|_, _, _| 0);
    let at = head.windows(2).position(|w| w == [0xff, 0xc0]).expect("frame header") + 5;
    head[at..at + 2].copy_from_slice(&jpeg.height.to_be_bytes());
    head[at + 2..at + 4].copy_from_slice(&jpeg.width.to_be_bytes());
    assert!(error(&head, "bomb.jpg").contains("too large"));
}

#[test]
fn zero_size_is_named() {
    for (width, height) in [(0, 5), (5, 0)] {
        let text = error(&png_header(width, height), "zero.png");
        assert!(text.contains(&format!("size {width}x{height}")), "{text}");
    }
}

#[test]
fn an_honest_large_photograph_opens() {
    let photo = open(&encoded(GrayImage::from_pixel(8000, 6000, Luma([128])), ImageFormat::Png), "large.png");
    let linear = photo.working(UVec2::new(80, 60)).expect("a reduction");
    let want = srgb_to_linear(128.0 / 255.0) as f32;
    assert!(linear.samples().iter().all(|v| (v - want).abs() < 1e-5));
}
