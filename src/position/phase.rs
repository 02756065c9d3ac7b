//! Phases as 32-bit fractions of a turn: sums and multiples wrap around exactly, so a code does not drift with the position.
//!
//! In f32, 2π·f·n is off by 1.4·10⁻² at n = 65 535. A frequency as the integer nearest f · 2³² loses 2⁻³³ of a turn per token once and
//! for all, and its product with n is exact modulo a turn: the same bits on every backend (method: 4.2). Cosine and sine come from
//! short polynomials, because a shader's own may be wrong by 2⁻¹¹.

use crate::kernel::reference::Real;
use std::any::TypeId;

/// Phase units in a turn.
pub const TURN: f64 = 4_294_967_296.0;

/// The phase nearest to a number of turns; whole turns do not count.
pub fn of_turns(turns: f64) -> u32 {
    // Rounding may reach the whole turn, which is 0 again.
    (turns.rem_euclid(1.0) * TURN).round() as u64 as u32
}

/// Odd coefficients of sin(πx/4) on [−1, 1], lowest first.
pub const SINE: [f32; 4] = [std::f32::consts::FRAC_PI_4, -0.080_745_436, 0.002_490_006_8, -3.595_44e-5];
/// Even coefficients of cos(πx/4) on [−1, 1], lowest first.
pub const COSINE: [f32; 5] = [1.0, -0.308_425_13, 0.015_854_325, -3.259_386e-4, 3.529_804_2e-6];

/// Cosine and sine of a phase in f32, at most 1.03·10⁻⁷ off; shaders do the same operations in the same order.
///
/// The phase is split into the nearest quarter turn and a rest x in [−1, 1) eighths; Horner's rule in x², multiplications and
/// additions rounded one by one.
pub fn cos_sin_f32(phase: u32) -> (f32, f32) {
    let quarter = phase.wrapping_add(1 << 29) >> 30;
    let x = phase.wrapping_sub(quarter << 30).cast_signed() as f32 * (1.0 / (1_u32 << 29) as f32);
    let y = x * x;
    let sine = x * (SINE[0] + y * (SINE[1] + y * (SINE[2] + y * SINE[3])));
    let cosine = COSINE[0] + y * (COSINE[1] + y * (COSINE[2] + y * (COSINE[3] + y * COSINE[4])));
    turned(quarter, cosine, sine)
}

/// Cosine and sine of a phase in f64.
pub fn cos_sin_f64(phase: u32) -> (f64, f64) {
    let quarter = phase.wrapping_add(1 << 29) >> 30;
    let rest = f64::from(phase.wrapping_sub(quarter << 30).cast_signed());
    let (sine, cosine) = (std::f64::consts::TAU * (rest / TURN)).sin_cos();
    turned(quarter, cosine, sine)
}

/// Cosine and sine of a phase: [`cos_sin_f32`] where `T` is f32, [`cos_sin_f64`] otherwise.
pub fn cos_sin<T: Real>(phase: u32) -> (T, T) {
    let (cosine, sine) = if TypeId::of::<T>() == TypeId::of::<f32>() {
        let (cosine, sine) = cos_sin_f32(phase);
        (f64::from(cosine), f64::from(sine))
    } else {
        cos_sin_f64(phase)
    };
    (T::of(cosine), T::of(sine))
}

fn turned<T: std::ops::Neg<Output = T>>(quarter: u32, cosine: T, sine: T) -> (T, T) {
    match quarter & 3 {
        0 => (cosine, sine),
        1 => (-sine, cosine),
        2 => (-cosine, -sine),
        _ => (sine, -cosine),
    }
}
