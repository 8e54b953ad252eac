// One token of each row through one layer of Transformer-XL; `layer.py` says what the arrays are.
//
// The same numbers as `TransformerXLBlock.extend`, to float32's rounding. The work is reading parameters and memory
// once, so that all of a layer is one job: threads meet five times, and nothing in between costs a call.

#include <cfloat>
#include <iterator>
#include <memory>
#include <vector>

#include "products.h"
#include "team.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace memjax {
namespace {

using Floats = ffi::Buffer<ffi::F32>;

constexpr float kNormEpsilon = 1e-5f;
constexpr int64_t kGelu = 1;
// Numbers of parameters and memory that are worth another thread.
constexpr int64_t kWorthAThread = 1 << 16;

struct Norm {
  const float *scale, *bias;
};

struct Layer {
  int64_t B, D, H, K, F, P, T, N;  // N = P + T, or 0 without encodings of distances
  int64_t parts;                   // of a product
  int64_t chunks, attentions;      // of a head's keys; parts of all the heads' chunks
  int64_t place;
  bool is_pre_norm;
  int64_t activation;
  const float *x_BxD, *query_DxHK, *key_DxHK, *value_DxHK, *output_HKxD, *up_DxF, *up_bias_F, *down_FxD, *down_bias_D;
  Norm attention_norm, feed_forward_norm;
  const float *u_HxK, *v_HxK, *keys_BxHxPxK, *values_BxHxPxK, *near_HxNxK, *unseen_BxN;
  float *y_BxD, *inputs_BxD, *tail_keys_BxHxTxK, *tail_values_BxHxTxK;
  // Sums over some of a product's rows, a part each, and attention over some of the keys.
  float *projected_SxBx3xHK, *attended_BxHxCxK, *highest_BxHxC, *total_BxHxC, *mixed_SxBxD, *hidden_SxBxF, *out_SxBxD;
};

int64_t Share(int64_t length, int64_t part, int64_t parts) { return length * part / parts; }

void Normalize(const float* x, Norm norm, int64_t length, float* y) {
  const int64_t whole = length / kLanes * kLanes;
  Lanes sums = {}, squares = {};
  for (int64_t i = 0; i < whole; i += kLanes) sums += Load(x + i);
  float sum = Sum(sums);
  for (int64_t i = whole; i < length; ++i) sum += x[i];
  const float mean = sum / length;
  for (int64_t i = 0; i < whole; i += kLanes) squares += (Load(x + i) - mean) * (Load(x + i) - mean);
  float square = Sum(squares);
  for (int64_t i = whole; i < length; ++i) square += (x[i] - mean) * (x[i] - mean);
  const float inverse = 1.0f / std::sqrt(square / length + kNormEpsilon);
  for (int64_t i = 0; i < length; ++i) y[i] = (x[i] - mean) * inverse * norm.scale[i] + norm.bias[i];
}

// The sum over parts of row b of sums[part, b, :length], from `first` on, for `count` of them.
void Gather(const float* sums, int64_t parts, int64_t part_stride, int64_t first, int64_t count, float* y) {
  std::copy(sums + first, sums + first + count, y);
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t i = 0; i < count; ++i) y[i] += sums[part * part_stride + first + i];
}

// This part's rows of a matrix times x, for each row b; y is overwritten.
void PartOfProduct(const Layer& l, int64_t part, const float* x_BxR, int64_t rows, const float* w_RxC, int64_t columns,
                   int64_t x_stride, float* y, int64_t y_stride) {
  const int64_t first = Share(rows, part, l.parts), count = Share(rows, part + 1, l.parts) - first;
  for (int64_t b = 0; b < l.B; ++b) {
    std::fill(y + b * y_stride, y + b * y_stride + columns, 0.0f);
    AddProduct(x_BxR + b * x_stride + first, w_RxC + first * columns, count, columns, y + b * y_stride);
  }
}

void Project(const Layer& l, int64_t part) {
  const int64_t HK = l.H * l.K;
  std::unique_ptr<float[]> normed;
  const float* inputs_BxD = l.x_BxD;
  if (l.is_pre_norm) {
    normed.reset(new float[l.B * l.D]);
    for (int64_t b = 0; b < l.B; ++b) Normalize(l.x_BxD + b * l.D, l.attention_norm, l.D, normed.get() + b * l.D);
    inputs_BxD = normed.get();
  }
  if (part == 0) std::copy(inputs_BxD, inputs_BxD + l.B * l.D, l.inputs_BxD);
  float* sums = l.projected_SxBx3xHK + part * l.B * 3 * HK;
  int64_t which = 0;
  for (const float* w_DxHK : {l.query_DxHK, l.key_DxHK, l.value_DxHK})
    PartOfProduct(l, part, inputs_BxD, l.D, w_DxHK, HK, l.D, sums + which++ * HK, 3 * HK);
}

// One head's attention over one chunk of the keys: memory's slots, then, in the last chunk, the segment's tokens.
void AttendToChunk(const Layer& l, int64_t b, int64_t h, int64_t chunk) {
  const int64_t HK = l.H * l.K, K = l.K, P = l.P, bh = b * l.H + h;
  const bool is_last = chunk + 1 == l.chunks;
  const int64_t first = Share(P, chunk, l.chunks), end = Share(P, chunk + 1, l.chunks);
  const int64_t own = is_last ? l.place + 1 : 0, slots = end - first, keys = slots + own;
  std::unique_ptr<float[]> space(new float[3 * K + keys + kLanes]);
  float *query = space.get(), *at_content = query + K, *at_position = at_content + K, *scores = at_position + K;
  Gather(l.projected_SxBx3xHK, l.parts, l.B * 3 * HK, b * 3 * HK + h * K, K, query);
  for (int64_t k = 0; k < K; ++k) {
    at_content[k] = query[k] + l.u_HxK[h * K + k];
    at_position[k] = query[k] + l.v_HxK[h * K + k];
  }
  float *tail_keys_TxK = l.tail_keys_BxHxTxK + bh * l.T * K, *tail_values_TxK = l.tail_values_BxHxTxK + bh * l.T * K;
  if (is_last) {
    Gather(l.projected_SxBx3xHK, l.parts, l.B * 3 * HK, (b * 3 + 1) * HK + h * K, K, tail_keys_TxK + l.place * K);
    Gather(l.projected_SxBx3xHK, l.parts, l.B * 3 * HK, (b * 3 + 2) * HK + h * K, K, tail_values_TxK + l.place * K);
  }
  std::fill(scores, scores + keys, 0.0f);
  AddDots(at_content, l.keys_BxHxPxK + (bh * P + first) * K, slots, K, scores);
  AddDots(at_content, tail_keys_TxK, own, K, scores + slots);
  // The table's first row is the largest distance, that of the first key to the segment's last token.
  if (l.N) AddDots(at_position, l.near_HxNxK + (h * l.N + first + l.T - 1 - l.place) * K, keys, K, scores);
  const float scale = 1.0f / std::sqrt(static_cast<float>(K));
  const float* unseen = l.unseen_BxN + b * (P + l.T) + first;
  for (int64_t i = 0; i < keys; ++i) scores[i] = scores[i] * scale + unseen[i];
  std::fill(scores + keys, scores + keys + kLanes, -FLT_MAX);
  Lanes each = Load(scores);
  for (int64_t i = 0; i < keys; i += kLanes) {
    const Lanes more = Load(scores + i);
    each = more > each ? more : each;
  }
  float highest = each[0];
  for (int64_t lane = 1; lane < kLanes; ++lane) highest = std::max(highest, each[lane]);
  Lanes totals = {};
  for (int64_t i = 0; i < keys; i += kLanes) {
    // A difference of less than -FLT_MAX is -infinity, of which the power is 0 too.
    const Lanes powers = Exp(Load(scores + i) - highest);
    Store(scores + i, powers);
    totals += powers;
  }
  const int64_t at = bh * l.chunks + chunk;
  float* attended = l.attended_BxHxCxK + at * K;
  std::fill(attended, attended + K, 0.0f);
  AddProduct(scores, l.values_BxHxPxK + (bh * P + first) * K, slots, K, attended);
  AddProduct(scores + slots, tail_values_TxK, own, K, attended);
  l.highest_BxHxC[at] = highest;
  l.total_BxHxC[at] = Sum(totals);
}

void Attend(const Layer& l, int64_t part) {
  const int64_t pieces = l.B * l.H * l.chunks;
  for (int64_t piece = Share(pieces, part, l.attentions); piece < Share(pieces, part + 1, l.attentions); ++piece)
    AttendToChunk(l, piece / l.chunks / l.H, piece / l.chunks % l.H, piece % l.chunks);
}

// A head's result out of those of its chunks.
void Merge(const Layer& l, int64_t bh, float* y_K) {
  const float *highest = l.highest_BxHxC + bh * l.chunks, *total = l.total_BxHxC + bh * l.chunks;
  const float most = *std::max_element(highest, highest + l.chunks);
  float sum = 0;
  std::fill(y_K, y_K + l.K, 0.0f);
  for (int64_t chunk = 0; chunk < l.chunks; ++chunk) {
    // A chunk of which nothing is seen has the lowest of numbers for its highest score.
    const float weight = std::exp(highest[chunk] - most);
    const float* attended = l.attended_BxHxCxK + (bh * l.chunks + chunk) * l.K;
    sum += weight * total[chunk];
    for (int64_t k = 0; k < l.K; ++k) y_K[k] += weight * attended[k];
  }
  for (int64_t k = 0; k < l.K; ++k) y_K[k] /= sum;
}

void Mix(const Layer& l, int64_t part) {
  const int64_t HK = l.H * l.K;
  std::unique_ptr<float[]> attended_BxHK(new float[l.B * HK]);
  // Only heads of which this part has rows.
  const int64_t first = Share(HK, part, l.parts) / l.K, end = (Share(HK, part + 1, l.parts) + l.K - 1) / l.K;
  for (int64_t b = 0; b < l.B; ++b)
    for (int64_t h = first; h < end; ++h) Merge(l, b * l.H + h, attended_BxHK.get() + b * HK + h * l.K);
  PartOfProduct(l, part, attended_BxHK.get(), HK, l.output_HKxD, l.D, HK, l.mixed_SxBxD + part * l.B * l.D, l.D);
}

// After attention: the state that the feed-forward sublayer adds to.
void Between(const Layer& l, int64_t b, float* x_D) {
  Gather(l.mixed_SxBxD, l.parts, l.B * l.D, b * l.D, l.D, x_D);
  for (int64_t d = 0; d < l.D; ++d) x_D[d] += l.x_BxD[b * l.D + d];
  if (!l.is_pre_norm) Normalize(x_D, l.attention_norm, l.D, x_D);
}

void Up(const Layer& l, int64_t part) {
  std::unique_ptr<float[]> x_BxD(new float[l.B * l.D]);
  for (int64_t b = 0; b < l.B; ++b) {
    float* x_D = x_BxD.get() + b * l.D;
    Between(l, b, x_D);
    if (l.is_pre_norm) Normalize(x_D, l.feed_forward_norm, l.D, x_D);
  }
  PartOfProduct(l, part, x_BxD.get(), l.D, l.up_DxF, l.F, l.D, l.hidden_SxBxF + part * l.B * l.F, l.F);
}

// Of `count` numbers, and up to kLanes - 1 more that follow.
void Activate(int64_t activation, int64_t count, float* x) {
  if (activation != kGelu) {
    for (int64_t i = 0; i < count; ++i) x[i] = std::max(x[i], 0.0f);
    return;
  }
  // x (1 + tanh z) / 2 = x / (1 + e^-2z), of z = sqrt(2 / pi) (x + 0.044715 x^3).
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes y = Load(x + i), power = -1.5957691216f * (y + 0.044715f * y * y * y);
    Store(x + i, y / (1.0f + Exp(power < 87.0f ? power : Lanes{} + 87.0f)));
  }
}

void Down(const Layer& l, int64_t part) {
  const int64_t first = Share(l.F, part, l.parts), count = Share(l.F, part + 1, l.parts) - first;
  std::vector<float> hidden(count + kLanes);
  std::vector<int32_t> lit;
  for (int64_t b = 0; b < l.B; ++b) {
    Gather(l.hidden_SxBxF, l.parts, l.B * l.F, b * l.F + first, count, hidden.data());
    for (int64_t i = 0; i < count; ++i) hidden[i] += l.up_bias_F[first + i];
    Activate(l.activation, count, hidden.data());
    // Rows that a ReLU has turned off, half of them or more, need not be read.
    lit.clear();
    for (int64_t i = 0; i < count; ++i)
      if (hidden[i] != 0) lit.push_back(i);
    float* out_D = l.out_SxBxD + (part * l.B + b) * l.D;
    std::fill(out_D, out_D + l.D, 0.0f);
    const auto which = [&](int64_t i) { return lit[i]; };
    AddProductOf(which, hidden.data(), l.down_FxD + first * l.D, lit.size(), l.D, out_D);
  }
}

void Finish(const Layer& l) {
  std::unique_ptr<float[]> x_D(new float[l.D]);
  for (int64_t b = 0; b < l.B; ++b) {
    float* y_D = l.y_BxD + b * l.D;
    Between(l, b, x_D.get());
    Gather(l.out_SxBxD, l.parts, l.B * l.D, b * l.D, l.D, y_D);
    for (int64_t d = 0; d < l.D; ++d) y_D[d] += x_D[d] + l.down_bias_D[d];
    if (!l.is_pre_norm) Normalize(y_D, l.feed_forward_norm, l.D, y_D);
  }
}

ffi::Error Read(ffi::ThreadPool pool, Floats x, Floats query, Floats key, Floats value, Floats output, Floats up,
                Floats up_bias, Floats down, Floats down_bias, Floats attention_scale, Floats attention_bias,
                Floats feed_forward_scale, Floats feed_forward_bias, Floats u, Floats v, Floats keys, Floats values,
                Floats near, Floats unseen, ffi::Buffer<ffi::S32> place, Floats tail_keys,
                Floats tail_values, bool is_pre_norm, int64_t activation, int64_t threads, ffi::Result<Floats> y,
                ffi::Result<Floats> inputs, ffi::Result<Floats> new_keys, ffi::Result<Floats> new_values) {
  Layer l;
  const auto shape = keys.dimensions();
  l.B = shape[0], l.H = shape[1], l.P = shape[2], l.K = shape[3];
  l.D = x.dimensions()[1], l.F = up.dimensions()[1], l.T = tail_keys.dimensions()[2], l.N = near.dimensions()[1];
  l.place = *place.typed_data();
  l.is_pre_norm = is_pre_norm, l.activation = activation;
  if (l.place < 0 || l.place >= l.T) return ffi::Error::InvalidArgument("the segment is full");
  // XLA made them one, as it was told to.
  if (new_keys->typed_data() != tail_keys.typed_data() || new_values->typed_data() != tail_values.typed_data())
    return ffi::Error::Internal("keys and values are not written where they are read");
  l.x_BxD = x.typed_data();
  l.query_DxHK = query.typed_data(), l.key_DxHK = key.typed_data(), l.value_DxHK = value.typed_data();
  l.output_HKxD = output.typed_data(), l.up_DxF = up.typed_data(), l.up_bias_F = up_bias.typed_data();
  l.down_FxD = down.typed_data(), l.down_bias_D = down_bias.typed_data();
  l.attention_norm = {attention_scale.typed_data(), attention_bias.typed_data()};
  l.feed_forward_norm = {feed_forward_scale.typed_data(), feed_forward_bias.typed_data()};
  l.u_HxK = u.typed_data(), l.v_HxK = v.typed_data();
  l.keys_BxHxPxK = keys.typed_data(), l.values_BxHxPxK = values.typed_data(), l.near_HxNxK = near.typed_data();
  l.unseen_BxN = unseen.typed_data();
  l.y_BxD = y->typed_data(), l.inputs_BxD = inputs->typed_data();
  l.tail_keys_BxHxTxK = new_keys->typed_data(), l.tail_values_BxHxTxK = new_values->typed_data();

  const int64_t HK = l.H * l.K, numbers = HK * (4 * l.D + l.N + 2 * l.B * l.P) + 2 * l.D * l.F;
  const int64_t worth = threads ? threads : std::min<int64_t>(pool.num_threads(), numbers / kWorthAThread);
  l.parts = std::clamp<int64_t>(worth, 1, Team::kMostThreads);
  // More parts than threads: one that is held up leaves some to the others.
  l.chunks = (2 * l.parts + l.B * l.H - 1) / (l.B * l.H);
  l.attentions = std::min<int64_t>(l.B * l.H * l.chunks, Team::kMostParts);
  const int64_t sizes[] = {l.parts * l.B * 3 * HK,     l.B * l.H * l.chunks * l.K, l.B * l.H * l.chunks,
                           l.B * l.H * l.chunks,       l.parts * l.B * l.D,        l.parts * l.B * l.F,
                           l.parts * l.B * l.D};
  float** const pieces[] = {&l.projected_SxBx3xHK, &l.attended_BxHxCxK, &l.highest_BxHxC, &l.total_BxHxC,
                            &l.mixed_SxBxD,        &l.hidden_SxBxF,     &l.out_SxBxD};
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  std::unique_ptr<float[]> space(new float[total]);
  float* next = space.get();
  for (size_t i = 0; i < std::size(sizes); ++i) *pieces[i] = next, next += sizes[i];

  void (*const phases[])(const Layer&, int64_t) = {Project, Attend, Mix, Up, Down};
  const int parts = l.parts, counts[] = {parts, static_cast<int>(l.attentions), parts, parts, parts};
  Team::Get().Run(parts, std::size(phases), counts, [&](int phase, int part) { phases[phase](l, part); });
  Finish(l);
  return ffi::Error::Success();
}

}  // namespace
}  // namespace memjax

XLA_FFI_DEFINE_HANDLER_SYMBOL(MemjaxReadToken, memjax::Read,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<memjax::Floats>()   // x
                                  .Arg<memjax::Floats>()   // query
                                  .Arg<memjax::Floats>()   // key
                                  .Arg<memjax::Floats>()   // value
                                  .Arg<memjax::Floats>()   // output
                                  .Arg<memjax::Floats>()   // up
                                  .Arg<memjax::Floats>()   // up_bias
                                  .Arg<memjax::Floats>()   // down
                                  .Arg<memjax::Floats>()   // down_bias
                                  .Arg<memjax::Floats>()   // attention_scale
                                  .Arg<memjax::Floats>()   // attention_bias
                                  .Arg<memjax::Floats>()   // feed_forward_scale
                                  .Arg<memjax::Floats>()   // feed_forward_bias
                                  .Arg<memjax::Floats>()   // u
                                  .Arg<memjax::Floats>()   // v
                                  .Arg<memjax::Floats>()   // keys
                                  .Arg<memjax::Floats>()   // values
                                  .Arg<memjax::Floats>()   // near
                                  .Arg<memjax::Floats>()   // unseen
                                  .Arg<ffi::Buffer<ffi::S32>>()   // place
                                  .Arg<memjax::Floats>()   // tail_keys
                                  .Arg<memjax::Floats>()   // tail_values
                                  .Attr<bool>("is_pre_norm")
                                  .Attr<int64_t>("activation")
                                  .Attr<int64_t>("threads")  // 0: as many as XLA has and the layer is worth
                                  .Ret<memjax::Floats>()   // y
                                  .Ret<memjax::Floats>()   // inputs
                                  .Ret<memjax::Floats>()   // tail_keys
                                  .Ret<memjax::Floats>());  // tail_values
