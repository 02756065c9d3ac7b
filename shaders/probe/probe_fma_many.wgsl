// The same with six places per thread: 60 sums, more than a processor has registers for, four steps of each before the next one's turn.
// x, out [b, h, n].
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

struct Chains { s: vec4f, t: vec4f, u: vec2f }

fn begun(at: u32, last: u32) -> Chains {
  let s = vec4f(x[params.x_at + min(at, last)]) + vec4f(0.0, 0.125, 0.25, 0.375);
  return Chains(s, s + vec4f(0.5), s.xy + vec2f(1.0));
}

fn four_steps(s: vec4f, f: f32, g: f32) -> vec4f {
  return (((s * f + g) * f + g) * f + g) * f + g;
}

fn advance(c: ptr<function, Chains>, f: f32, g: f32) {
  (*c).s = four_steps((*c).s, f, g);
  (*c).t = four_steps((*c).t, f, g);
  (*c).u = ((((*c).u * f + g) * f + g) * f + g) * f + g;
}

fn end(at: u32, last: u32, c: Chains) {
  let sums = c.s + c.t;
  if (at <= last) { out[params.out_at + at] = ((sums.x + sums.y) + (sums.z + sums.w)) + (c.u.x + c.u.y); }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 383u) / 384u;
  let first = group / groups_per_batch * params.n;
  let last = first + params.n - 1u;
  let at = first + group % groups_per_batch * 384u + thread;
  let f = params.factor;
  let g = params.addend;
  var a = begun(at, last);
  var b = begun(at + 64u, last);
  var c = begun(at + 128u, last);
  var d = begun(at + 192u, last);
  var e = begun(at + 256u, last);
  var h = begun(at + 320u, last);
  for (var round = 0u; round < 4u * params.rounds; round++) {
    advance(&a, f, g);
    advance(&b, f, g);
    advance(&c, f, g);
    advance(&d, f, g);
    advance(&e, f, g);
    advance(&h, f, g);
  }
  end(at, last, a);
  end(at + 64u, last, b);
  end(at + 128u, last, c);
  end(at + 192u, last, d);
  end(at + 256u, last, e);
  end(at + 320u, last, h);
}
