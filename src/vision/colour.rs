//! Colour arithmetic: sRGB, linear light, OKLab.

/// sRGB transfer function: encoded value 0…1 to linear light 0…1. Source: IEC 61966-2-1.
pub fn srgb_to_linear(encoded: f64) -> f64 {
    if encoded <= 0.040_45 { encoded / 12.92 } else { ((encoded + 0.055) / 1.055).powf(2.4) }
}

/// Inverse of [`srgb_to_linear`].
pub fn linear_to_srgb(linear: f64) -> f64 {
    if linear <= 0.003_130_8 { linear * 12.92 } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 }
}

/// Nearest 8-bit sRGB code of a linear value; values outside 0…1 have no code and take the nearest end.
pub(super) fn srgb_encode8(linear: f32) -> u8 {
    (linear_to_srgb(f64::from(linear.clamp(0.0, 1.0))) * 255.0).round() as u8
}

/// OKLab of a linear sRGB colour: `[L, a, b]`, L = 0 for black and 1 for white.
///
/// (l, m, s) = M₁ · rgb, Lab = M₂ · (∛l, ∛m, ∛s). Source: B. Ottosson, "A perceptual color space for image
/// processing", 2020 (matrices as revised on 2021-01-25).
pub fn oklab(rgb: [f64; 3]) -> [f64; 3] {
    let product = |m: &[[f64; 3]; 3], v: [f64; 3]| m.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);
    product(&OKLAB_FROM_LMS, product(&LMS_FROM_RGB, rgb).map(f64::cbrt))
}

/// M₁ of [`oklab`], row by row; the device uses the same numbers.
pub const LMS_FROM_RGB: [[f64; 3]; 3] = [
    [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
    [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
    [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
];

/// M₂ of [`oklab`], row by row.
pub const OKLAB_FROM_LMS: [[f64; 3]; 3] = [
    [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
    [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
    [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
];

/// Linear sRGB of an OKLab colour: the inverse of [`oklab`]. Source: Ottosson 2020.
pub(super) fn linear_from_oklab(lab: [f64; 3]) -> [f64; 3] {
    let product = |m: [[f64; 3]; 3], v: [f64; 3]| m.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);
    let lms = product(
        [
            [1.0, 0.396_337_777_4, 0.215_803_757_3],
            [1.0, -0.105_561_345_8, -0.063_854_172_8],
            [1.0, -0.089_484_177_5, -1.291_485_548_0],
        ],
        lab,
    );
    product(
        [
            [4.076_741_662_1, -3.307_711_591_3, 0.230_969_929_2],
            [-1.268_438_004_6, 2.609_757_401_1, -0.341_319_396_5],
            [-0.004_196_086_3, -0.703_418_614_7, 1.707_614_701_0],
        ],
        lms.map(|v| v * v * v),
    )
}

/// sRGB of an OKLab colour in polar form (hue in degrees); chroma is lowered until it fits.
pub(crate) fn srgb_from_polar(lightness: f64, chroma: f64, hue: f64) -> [u8; 3] {
    let (sin, cos) = hue.to_radians().sin_cos();
    let linear = |c: f64| linear_from_oklab([lightness, c * cos, c * sin]);
    let fits = |c: f64| linear(c).iter().all(|v| (-1e-6..=1.0 + 1e-6).contains(v));
    let mut fitting = chroma;
    if !fits(chroma) {
        let (mut low, mut high) = (0.0, chroma);
        for _ in 0..30 {
            let middle = 0.5 * (low + high);
            if fits(middle) { low = middle } else { high = middle }
        }
        fitting = low;
    }
    linear(fitting).map(|v| (linear_to_srgb(v.clamp(0.0, 1.0)) * 255.0).round() as u8)
}
