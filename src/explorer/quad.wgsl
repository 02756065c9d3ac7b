// The photograph, and where there is one a layer over it, as one opaque picture.

struct Corner {
    // Clip space.
    @location(0) at: vec2<f32>,
    // 0…1 over the photograph.
    @location(1) in_photo: vec2<f32>,
    // 0…1 over the layer, beyond that where the layer does not reach.
    @location(2) in_layer: vec2<f32>,
    @location(3) opacity: f32,
}

struct Pixel {
    @builtin(position) at: vec4<f32>,
    @location(0) in_photo: vec2<f32>,
    @location(1) in_layer: vec2<f32>,
    @location(2) @interpolate(flat) opacity: f32,
}

@group(0) @binding(0) var photo: texture_2d<f32>;
@group(0) @binding(1) var photo_sampler: sampler;
@group(0) @binding(2) var layer: texture_2d<f32>;
@group(0) @binding(3) var layer_sampler: sampler;

@vertex
fn corner(c: Corner) -> Pixel {
    return Pixel(vec4(c.at, 0.0, 1.0), c.in_photo, c.in_layer, c.opacity);
}

// Colours are display bytes; a target that encodes them itself is given light.
fn light(display: vec3<f32>) -> vec3<f32> {
    let curve = pow((display + vec3(0.055)) / 1.055, vec3(2.4));
    return select(curve, display / 12.92, display < vec3(0.04045));
}

fn seen(p: Pixel) -> vec3<f32> {
    let below = textureSampleLevel(photo, photo_sampler, p.in_photo, 0.0).rgb;
    let above = textureSampleLevel(layer, layer_sampler, p.in_layer, 0.0);
    let inside = all(p.in_layer >= vec2(0.0)) && all(p.in_layer <= vec2(1.0));
    let share = select(0.0, p.opacity, inside);
    // The layer's colours carry their alpha already.
    return below * (1.0 - share * above.a) + share * above.rgb;
}

@fragment
fn photo_alone(p: Pixel) -> @location(0) vec4<f32> {
    return vec4(textureSampleLevel(photo, photo_sampler, p.in_photo, 0.0).rgb, 1.0);
}

@fragment
fn photo_alone_as_light(p: Pixel) -> @location(0) vec4<f32> {
    return vec4(light(textureSampleLevel(photo, photo_sampler, p.in_photo, 0.0).rgb), 1.0);
}

@fragment
fn photo_and_layer(p: Pixel) -> @location(0) vec4<f32> {
    return vec4(seen(p), 1.0);
}

@fragment
fn photo_and_layer_as_light(p: Pixel) -> @location(0) vec4<f32> {
    return vec4(light(seen(p)), 1.0);
}
