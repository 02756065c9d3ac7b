//! Words in pictures: the fonts that the explorer has too, with smooth edges, for every letter that one of them has.

use ab_glyph::{Font as _, FontRef, Glyph, PxScale, PxScaleFont, ScaleFont as _, point};
use image::{Rgb, RgbImage};
use std::sync::OnceLock;

/// What stands for a letter that no font has.
pub(crate) const LACKING: char = '?';

/// The fonts, the first that has a letter draws it.
fn fonts() -> &'static [FontRef<'static>] {
    static FONTS: OnceLock<Vec<FontRef<'static>>> = OnceLock::new();
    FONTS.get_or_init(|| {
        let files = [epaint_default_fonts::UBUNTU_LIGHT, epaint_default_fonts::HACK_REGULAR];
        files
            .into_iter()
            .map(|file| FontRef::try_from_slice(file).expect("built-in fonts are sound"))
            .collect()
    })
}

fn font_of(letter: char) -> Option<&'static FontRef<'static>> {
    fonts().iter().find(|font| font.glyph_id(letter).0 != 0)
}

/// Letters that no font has, each once: they are drawn as [`LACKING`].
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "pictures of networks ask"))]
pub(crate) fn lacking(words: &str) -> Vec<char> {
    let mut found = Vec::new();
    for letter in words.chars().filter(|letter| !letter.is_whitespace() && font_of(*letter).is_none()) {
        if !found.contains(&letter) {
            found.push(letter);
        }
    }
    found
}

/// Glyphs on a line that begins at 0, each with its font, and where the line ends. `size` is the height of a line in pixels.
fn line(words: &str, size: f32) -> (Vec<(PxScaleFont<&'static FontRef<'static>>, Glyph)>, f32) {
    let mut glyphs = Vec::new();
    let mut at = 0.0;
    for letter in words.chars() {
        let letter = if letter.is_whitespace() { ' ' } else { letter };
        let Some((letter, font)) =
            font_of(letter).map(|font| (letter, font)).or_else(|| Some((LACKING, font_of(LACKING)?)))
        else {
            continue;
        };
        let scaled = font.as_scaled(PxScale::from(size));
        let mut glyph = scaled.scaled_glyph(letter);
        glyph.position = point(at, 0.0);
        at += scaled.h_advance(glyph.id);
        glyphs.push((scaled, glyph));
    }
    (glyphs, at)
}

/// Pixels that the words take from left to right.
pub(crate) fn width(words: &str, size: f32) -> f32 {
    line(words, size).1
}

/// Writes words whose line, `size` pixels high, begins at `left` and `top`.
pub(crate) fn write(picture: &mut RgbImage, (left, top): (f32, f32), size: f32, words: &str, ink: [u8; 3]) {
    // All fonts stand on the line of the first.
    let ascent = fonts().first().map_or(0.0, |font| font.as_scaled(PxScale::from(size)).ascent());
    let base = (top + ascent).round();
    for (font, mut glyph) in line(words, size).0 {
        glyph.position = point(glyph.position.x + left, base);
        let Some(outline) = font.outline_glyph(glyph) else { continue };
        let corner = outline.px_bounds().min;
        outline.draw(|x, y, cover| {
            let (x, y) = (corner.x as i64 + i64::from(x), corner.y as i64 + i64::from(y));
            let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
            if let Some(Rgb(pixel)) = picture.get_pixel_mut_checked(x, y) {
                let cover = cover.clamp(0.0, 1.0);
                for (channel, ink) in pixel.iter_mut().zip(ink) {
                    *channel =
                        (f32::from(*channel) + cover * (f32::from(ink) - f32::from(*channel))).round() as u8;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(words: &str) -> Vec<u8> {
        let mut picture = RgbImage::from_pixel(120, 24, Rgb([255; 3]));
        write(&mut picture, (2.0, 2.0), 18.0, words, [0; 3]);
        picture.into_raw()
    }

    #[test]
    fn umlauts_are_letters_of_their_own() {
        for words in ["ö", "é", "ß", "Ж", "λ", "−", "…"] {
            assert!(lacking(words).is_empty(), "{words}");
            assert!(drawn(words) != drawn("?") && drawn(words) != drawn(""), "{words}");
        }
        assert!(drawn("Königsberg") != drawn("Konigsberg"));
        assert!(drawn("Königsberg").iter().filter(|c| **c < 90).count() > 100);
    }

    #[test]
    fn letters_that_the_fonts_lack_are_told_and_replaced() {
        assert_eq!(lacking("東京, 東 a"), ['東', '京']);
        assert!(drawn("東") == drawn("?") && drawn("東") != drawn(""), "something is to be seen");
        assert!(width("東京", 18.0) > width("東", 18.0));
    }

    #[test]
    fn words_may_leave_the_picture() {
        let mut picture = RgbImage::from_pixel(9, 9, Rgb([255; 3]));
        write(&mut picture, (-20.0, -4.0), 18.0, "far too long", [0; 3]);
        write(&mut picture, (5.0, 8.0), 18.0, "far too long", [0; 3]);
        assert!(picture.pixels().any(|p| p.0 != [255; 3]));
    }
}
