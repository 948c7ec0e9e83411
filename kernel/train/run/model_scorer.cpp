#include "kernel/train/run/model_scorer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"
#include "tessera/zigzag.hpp"

namespace tessera {

// A sample for each text: inputs are its tokens but the last, targets those but the first.
class ModelScorer::Texts final : public Dataset {
 public:
  explicit Texts(i64 length) : length_(length) {}
  const std::vector<ScoredText>* texts = nullptr;

 private:
  std::vector<FieldInfo> do_fields() const override {
    return {{"tokens", DType::i64}, {"targets", DType::i64}, {"loss_mask", DType::u8, "lm"}};
  }
  i64 do_size(SampleSet) const override { return static_cast<i64>(texts->size()); }
  void do_read(SampleSet, i64 ordinal, const SampleBuffers& out) const override {
    const ScoredText& text = texts->at(static_cast<std::size_t>(ordinal));
    auto* tokens = static_cast<i64*>(out.fields[0]);
    auto* targets = static_cast<i64*>(out.fields[1]);
    auto* mask = static_cast<u8*>(out.fields[2]);
    const i64 count = static_cast<i64>(text.tokens.size()) - 1;
    for (i64 i = 0; i < length_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      tokens[i] = i < count ? text.tokens[at] : 0;
      targets[i] = i < count ? text.tokens[at + 1] : 0;
      mask[i] = i < count && i + 1 >= text.first ? 1 : 0;
    }
  }
  std::string do_fingerprint() const override { return "texts"; }

  i64 length_;
};

// Keeps what the cross entropy of a microbatch knows of its rows.
class ModelScorer::Rows final : public StepSink {
 public:
  Rows(const ModelParts& parts, Device& device)
      : zero_(Tensor::allocate(
            device, device.pool(), device.stream(), {1}, DType::fp64, Category::activations)) {
    const double zero = 0;
    device.write(zero_, &zero);
    const auto& losses = parts.losses();
    const auto main =
        std::ranges::find_if(losses, [](const auto& loss) { return !loss.auxiliary; });
    term_ = main == losses.end() ? -1 : static_cast<int>(main - losses.begin());
  }
  Tensor inverse_weight(LossTerm) override { return zero_; }
  void add_loss(Context&, LossTerm, const Tensor&) override {}
  void report(Context&, Metric, const Tensor&) override {}
  void count(Context&, Counts, i64, const Tensor&) override {}
  void rows(Context&, LossTerm term, const Tensor& sums) override {
    if (term.index == term_) sums_ = sums;
  }
  /// Of the microbatch that was the last to run; undefined: it left nothing.
  Tensor take() { return std::exchange(sums_, {}); }

 private:
  Tensor zero_, sums_;
  int term_;
};

ModelScorer::ModelScorer(PlacedModel& model)
    : model_(model),
      rank_(model.rank()),
      setup_(model.setup()),
      microbatches_(static_cast<int>(setup_.microbatches)),
      samples_(microbatches_ * setup_.batch.micro * rank_.mesh->size(Axis::data)),
      texts_(std::make_unique<Texts>(setup_.sequence_length)),
      rows_(std::make_unique<Rows>(model.parts(), *rank_.device)),
      inputs_(*texts_, model.parts(), setup_.batch, *rank_.mesh, *rank_.device, microbatches_),
      executor_(model.chunks(), model.parts(), nullptr, *rank_.mesh, model.boundaries()),
      plan_(model.plan(microbatches_, false)) {}

ModelScorer::~ModelScorer() = default;

i64 ModelScorer::most_tokens() const { return setup_.sequence_length + 1; }

void ModelScorer::check(const std::vector<ScoredText>& texts) const {
  const i64 vocabulary = setup_.tokenizer->vocabulary();
  for (const ScoredText& text : texts) {
    const auto count = static_cast<i64>(text.tokens.size());
    require(count >= 1 && count <= most_tokens(),
            "a text of {} tokens was to be scored: 1 to {}",
            count,
            most_tokens());
    require(text.first >= 1, "token {} of a text has nothing before it", text.first);
    for (const i32 id : text.tokens) {
      require(id >= 0 && id < vocabulary, "token {} is outside {} tokens", id, vocabulary);
    }
  }
}

std::vector<double> ModelScorer::round(Context& cx, i64 texts, int from, bool more) {
  const Mesh& mesh = *rank_.mesh;
  Device& device = *rank_.device;
  const i64 micro = setup_.batch.micro, local = setup_.batch.sequence;
  const i64 length = setup_.sequence_length;
  const auto request = [&](int first) {
    return StepInputs::Request{SampleSet::validation, 0, texts, first};
  };
  const StepInputs::Request next = request(from + microbatches_);
  inputs_.upload(cx, request(from), more ? &next : nullptr, 0);
  std::vector<double> values(static_cast<std::size_t>(samples_ * length * 2), 0);
  const auto load = [&](Context&, int microbatch, Bundle& bundle) {
    inputs_.load(microbatch, bundle);
  };
  const auto place = [&](i64 row) {  // of a row of this rank, in its sample
    const i64 chunk = local / zigzag::kHalves, ranks = mesh.size(Axis::context);
    if (ranks == 1) return row;
    return zigzag::chunk(ranks, mesh.coordinate(Axis::context), row / chunk) * chunk + row % chunk;
  };
  executor_.evaluate(cx, plan_, load, [&](Context& c, int microbatch, Bundle&) {
    const Tensor sums = rows_->take();
    require(sums.defined() && sums.dim(0) == setup_.batch.rows(),
            "this model's loss does not score each token");
    if (!mesh.first(Axis::tensor)) return;  // the others have the same
    const Tensor wide = c.empty(sums.shape(), DType::fp64);
    ops::run(c, CopyArgs{sums.arg(), wide.arg()});
    std::vector<double> own(static_cast<std::size_t>(wide.elements()));
    device.read(wide, own.data());
    const i64 first = (microbatch * mesh.size(Axis::data) + mesh.coordinate(Axis::data)) * micro;
    for (i64 row = 0; row < setup_.batch.rows(); ++row) {
      const i64 to = ((first + row / local) * length + place(row % local)) * 2;
      std::copy_n(own.begin() + row * 2, 2, values.begin() + to);
    }
  });
  if (mesh.world_size() == 1) return values;
  const Tensor all = cx.empty({static_cast<i64>(values.size())}, DType::fp64);
  device.write(all, values.data());
  mesh.world().all_reduce(*cx.stream, all, ReduceOp::sum, "scores").wait(*cx.stream);
  device.read(all, values.data());
  return values;
}

std::vector<std::vector<TokenScore>> ModelScorer::score(const std::vector<ScoredText>& texts) {
  check(texts);
  texts_->texts = &texts;
  Context cx = rank_.context();
  model_.prepared().prepare_all(cx);
  cx.sink = rows_.get();
  const i64 count = static_cast<i64>(texts.size()), length = setup_.sequence_length;
  std::vector<std::vector<TokenScore>> scores(texts.size());
  int from = 0;
  for (i64 first = 0; first < count; first += samples_, from += microbatches_) {
    const std::vector<double> values = round(cx, count, from, first + samples_ < count);
    for (i64 sample = 0; sample < std::min(samples_, count - first); ++sample) {
      const auto number = static_cast<std::size_t>(first + sample);
      const auto tokens = static_cast<i64>(texts[number].tokens.size());
      for (i64 token = texts[number].first; token < tokens; ++token) {
        const double* of = values.data() + (sample * length + token - 1) * 2;
        scores[number].push_back({of[1] - std::log(of[0]), of[1] == 0});
      }
    }
  }
  texts_->texts = nullptr;
  return scores;
}

}  // namespace tessera
