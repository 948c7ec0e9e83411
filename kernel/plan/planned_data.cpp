#include "kernel/plan/planned_data.hpp"

#include <algorithm>

#include "kernel/model/chunk.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

class NoTokenizer final : public Tokenizer {
 public:
  i64 vocabulary() const override { return 0; }
  std::vector<i32> encode(std::string_view) const override { fail("a plan has no tokenizer"); }
  std::string decode(const std::vector<i32>&) const override { fail("a plan has no tokenizer"); }
};

class PlannedDataset final : public Dataset {
 public:
  PlannedDataset(i64 sequence_length, const std::vector<std::string>& losses)
      : sequence_length_(sequence_length),
        fields_{{"tokens", DType::i64, ""}, {"targets", DType::i64, ""}} {
    for (const std::string& loss : losses) {
      const bool first = fields_.back().loss.empty();
      fields_.push_back({first ? "loss_mask" : loss + "_mask", DType::u8, loss});
    }
  }
  std::vector<FieldInfo> fields() const override { return fields_; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  i64 size(SampleSet) const override { return i64{1} << 40; }
  void read(SampleSet, i64, const SampleBuffers& out) const override {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      auto* bytes = static_cast<u8*>(out.fields[i]);
      const u8 value = fields_[i].loss.empty() ? 0 : 1;
      std::fill_n(bytes, sequence_length_ * dtype_size(fields_[i].dtype), value);
    }
  }
  std::string fingerprint() const override { return "none"; }

 private:
  i64 sequence_length_;
  std::vector<FieldInfo> fields_;
  NoTokenizer tokenizer_;
};

// The loss terms of the model, built without a device.
std::vector<std::string> losses_of(const RunConfig& config,
                                   ComponentMaker& maker,
                                   const RankGenerator& ranks) {
  ModelArguments no_tokenizer{0};
  const std::shared_ptr<Model> model = maker.make(config.model, no_tokenizer);
  const Mesh mesh(ranks, 0);
  ModelParts parts(mesh);
  const BuildSettings settings{.mesh = &mesh,
                               .batch = batch_shape_of(config, maker, model->sequence_length()),
                               .compute = precision_of(config.precision.compute),
                               .main = precision_of(config.precision.main),
                               .seed = config.run.seed,
                               .device = nullptr,
                               .maker = &maker};
  const Chunk chunk(*model, 0, 0, static_cast<int>(model->layers().size()), settings, parts);
  return parts.losses();
}

}  // namespace

std::shared_ptr<Dataset> make_planned_dataset(i64 sequence_length,
                                              const std::vector<std::string>& losses) {
  return std::make_shared<PlannedDataset>(sequence_length, losses);
}

std::shared_ptr<Dataset> data_for_plan(const RunConfig& config,
                                       ComponentMaker& maker,
                                       const RankGenerator& ranks,
                                       std::string& note) {
  const i64 sequence_length = sequence_length_of(config, maker);
  std::string why;
  try {
    return make_dataset(config, maker, sequence_length);
  } catch (const Error& error) {
    why = error.what();
  }
  std::vector<std::string> losses;
  try {
    losses = losses_of(config, maker, ranks);
  } catch (const Error& error) {
    fail_config("{}\nand without its data: {}", why, error.what());
  }
  note = fmt::format("planned without the data, each sample whole ({})", why);
  return make_planned_dataset(sequence_length, losses);
}

}  // namespace tessera
