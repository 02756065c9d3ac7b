//! The a-priori bound of the scaled iteration: how far each step brings it, and how many it needs.
//!
//! With the spectrum of A in [l, u] and X₀ = 2/(u + l) I,
//!
//! δ₀ = (u − l)/(u + l),  c = 2/(2 − δ²),  X ← c (2X − XAX),  δ ← δ²/(2 − δ²),
//!
//! and ‖I − AX‖₂ ≤ δ after every step. Nothing has to be measured on the way.

/// More steps than u/l = 1e30 needs.
pub const MOST_STEPS: u32 = 64;

/// The bound δ together with its gap 1 − δ: far from convergence the gap is the small number that must keep its
/// digits, near it δ is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    delta: f64,
    gap: f64,
}

impl Bound {
    /// Before the first step, for a spectrum in [`lower`, `upper`]; an `upper` below `lower` counts as equal.
    pub fn start(upper: f64, lower: f64) -> Self {
        let gap = 2.0 * lower / (upper.max(lower) + lower);
        Self {
            delta: 1.0 - gap,
            gap,
        }
    }

    /// δ, which ‖I − AX‖₂ does not exceed.
    pub fn delta(self) -> f64 {
        self.delta
    }

    /// The factor c of the next step, and the bound after it.
    pub fn step(self) -> (f64, Self) {
        let width = self.gap.mul_add(1.0 + self.delta, 1.0);
        let gap = 2.0 * self.gap * (1.0 + self.delta) / width;
        let delta = if gap < 0.5 {
            1.0 - gap
        } else {
            self.delta * self.delta / width
        };
        (2.0 / width, Self { delta, gap })
    }

    /// The fewest steps after which δ ≤ `tolerance`, at most [`MOST_STEPS`].
    pub fn steps_to(mut self, tolerance: f64) -> u32 {
        let mut steps = 0;
        while self.delta > tolerance && steps < MOST_STEPS {
            self = self.step().1;
            steps += 1;
        }
        steps
    }

    /// The factors of the first `steps` steps.
    pub fn factors(mut self, steps: u32) -> Vec<f64> {
        let mut next = |_| {
            let (factor, bound) = self.step();
            self = bound;
            factor
        };
        (0..steps).map(&mut next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursion_agrees_with_the_closed_form() {
        // 1/δₖ = cosh(2ᵏ arcosh(1/δ₀))
        let (upper, lower) = (50.0, 1e-3);
        let first = Bound::start(upper, lower);
        let angle = (1.0 / first.delta()).acosh();
        let mut bound = first;
        for k in 1..12 {
            bound = bound.step().1;
            let closed = 1.0 / (angle * 2.0_f64.powi(k)).cosh();
            assert!(
                (bound.delta() - closed).abs() <= 1e-9 * closed,
                "step {k}: {} and {closed}",
                bound.delta()
            );
        }
    }

    #[test]
    fn equal_bounds_need_no_step_and_inverted_ones_count_as_equal() {
        assert_eq!(Bound::start(0.5, 0.5).steps_to(1e-4), 0);
        assert_eq!(Bound::start(0.1, 0.5).steps_to(1e-4), 0);
    }

    #[test]
    fn scaling_both_bounds_changes_nothing() {
        for scale in [1e-10, 1.0, 1e10] {
            assert_eq!(Bound::start(30.0 * scale, 0.01 * scale).steps_to(1e-4), 9);
        }
    }
}
