#include "kernel/plan/planned_data.hpp"

#include <algorithm>
#include <utility>

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
  PlannedDataset(i64 sequence_length,
                 const std::vector<std::string>& losses,
                 std::shared_ptr<const Tokenizer> tokenizer)
      : sequence_length_(sequence_length),
        fields_{{"tokens", DType::i64, ""}, {"targets", DType::i64, ""}},
        tokenizer_(std::move(tokenizer)) {
    for (const std::string& loss : losses) {
      const bool first = fields_.back().loss.empty();
      fields_.push_back({first ? "loss_mask" : loss + "_mask", DType::u8, loss});
    }
  }
  std::vector<FieldInfo> fields() const override { return fields_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
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
  std::shared_ptr<const Tokenizer> tokenizer_;
};

// A dataset names its tokenizer in a slot, which can be filled without the data. Of several slots
// it is not known which one speaks for the model. A tokenizer that cannot be made adds its `why`.
std::shared_ptr<const Tokenizer> tokenizer_of(const Resolved& config,
                                              const Catalog& plugins,
                                              ComponentMaker& maker,
                                              std::string& why) {
  const ComponentInfo* dataset = plugins.find(Dataset::kKind, config.run.data.type);
  require(dataset != nullptr, "there is no dataset \"{}\"", config.run.data.type);
  std::vector<Component<Tokenizer>> slots;
  for (const FieldSpec& field : dataset->fields) {
    if (field.component_kind != Tokenizer::kKind) continue;
    const std::string path = join_path(config.run.data.path, field.name);
    const Entry* type = config.tree->find(join_path(path, "type"));
    if (type == nullptr || !type->value) continue;
    slots.push_back({std::get<std::string>(type->value->data), path});
  }
  try {
    TokenizerArguments none;
    if (slots.size() == 1 && !slots[0].type.empty()) return maker.make(slots[0], none);
  } catch (const Error& error) {
    why += fmt::format("\n{}", error.what());
  }
  return std::make_shared<NoTokenizer>();
}

// The loss terms of the model, built without a device.
std::vector<std::string> losses_of(const RunConfig& config,
                                   ComponentMaker& maker,
                                   const RankGenerator& ranks,
                                   const Tokenizer& tokenizer) {
  ModelArguments arguments{tokenizer.vocabulary()};
  const std::shared_ptr<Model> model = maker.make(config.model, arguments);
  const Mesh mesh(ranks, 0);
  ModelParts parts(mesh);
  const BatchShape batch = batch_shape_of(config, maker, model->sequence_length());
  const BuildSettings settings = build_settings_of(config, maker, batch, mesh, nullptr);
  const Chunk chunk(*model, 0, 0, static_cast<int>(model->layers().size()), settings, parts);
  return parts.losses();
}

}  // namespace

std::shared_ptr<Dataset> data_for_plan(const Resolved& config,
                                       const Catalog& plugins,
                                       ComponentMaker& maker,
                                       const RankGenerator& ranks,
                                       std::string& note) {
  const i64 sequence_length = sequence_length_of(config.run, maker);
  std::string why;
  try {
    return make_dataset(config.run, maker, sequence_length);
  } catch (const Error& error) {
    why = error.what();
  }
  auto tokenizer = tokenizer_of(config, plugins, maker, why);
  std::vector<std::string> losses;
  try {
    losses = losses_of(config.run, maker, ranks, *tokenizer);
  } catch (const Error& error) {
    fail_config("{}\nand without its data: {}", why, error.what());
  }
  note = fmt::format("planned without the data, each sample whole ({})", why);
  return std::make_shared<PlannedDataset>(sequence_length, losses, std::move(tokenizer));
}

}  // namespace tessera
