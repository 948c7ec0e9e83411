#include "bert_samples_support.hpp"

#include <array>

#include "tessera/data.hpp"
#include "tessera/random.hpp"

namespace tessera::testing::bert_samples {

namespace {

constexpr i64 kMask = 1, kChoices = 4;
constexpr double kMasked = 0.15;

class TestPairs final : public Dataset {
 public:
  struct Config {
    std::string goal = "masked";
    bool padding = false;
    i64 longest = 0;
    static void describe(Schema<Config>& s) {
      s.field("goal", &Config::goal, "what the fields are for")
          .one_of({"masked", "label", "choice", "span"});
      s.field("padding", &Config::padding, "samples end before their last position");
      s.field("longest", &Config::longest, "tokens of a sample; 0: all positions").at_least(0);
    }
  };
  TestPairs(const Config& config, const DatasetArguments& arguments)
      : config_(config), length_(arguments.sequence_length), seed_(arguments.seed) {}

 private:
  bool is(std::string_view goal) const { return config_.goal == goal; }

  std::vector<FieldInfo> do_fields() const override {
    std::vector<FieldInfo> fields = {
        {"tokens", DType::i64}, {"segments", DType::i64}, {"last", DType::i32}};
    if (is("masked")) {
      fields.push_back({"targets", DType::i64});
      fields.push_back({"loss_mask", DType::u8, "lm"});
    }
    if (is("choice")) {
      fields.push_back({"positions", DType::i64});
      fields.push_back({"first", DType::i32});
    }
    if (is("span")) {
      fields.push_back({"answerable", DType::u8});
      fields.push_back({"answer", DType::i64, "", 2});
      fields.push_back({"answer_mask", DType::u8, "span", 2});
    } else {
      fields.push_back({"label", DType::i64, "", 1});
      fields.push_back({"label_mask", DType::u8, is("masked") ? "order" : "label", 1});
    }
    return fields;
  }
  i64 do_size(SampleSet) const override { return 512; }
  std::string do_fingerprint() const override { return "pairs"; }

  void do_read(SampleSet, i64 ordinal, const SampleBuffers& out) const override {
    const auto number = static_cast<u32>(ordinal);
    const Philox::Words words = Philox::words(seed_, {number});
    std::map<std::string, void*> to;
    const std::vector<FieldInfo> fields = do_fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const i64 values = fields[i].length == 0 ? length_ : fields[i].length;
      std::fill_n(static_cast<u8*>(out.fields[i]), values * dtype_size(fields[i].dtype), u8{0});
      to[fields[i].name] = out.fields[i];
    }
    const i64 parts = is("choice") ? kChoices : 1, part = length_ / parts;
    for (i64 k = 0; k < parts; ++k) fill_part(k * part, part, words[0] + 7 * k, words[1], to);
    if (is("span")) {
      static_cast<i64*>(to["answer"])[0] = words[2] % (length_ / 4);
      static_cast<i64*>(to["answer"])[1] = length_ / 4;
      std::fill_n(static_cast<u8*>(to["answer_mask"]), 2, u8{1});
      return;
    }
    const u32 classes = is("choice") ? kChoices : is("label") ? 3 : 2;
    static_cast<i64*>(to["label"])[0] = words[1] % classes;
    static_cast<u8*>(to["label_mask"])[0] = 1;
  }

  // Places [begin, begin + length), which see each other.
  void fill_part(
      i64 begin, i64 length, u64 start, u64 step, std::map<std::string, void*>& to) const {
    i64 real = config_.longest > 0 ? std::min(config_.longest, length) : length;
    if (config_.padding) real -= static_cast<i64>(start % (static_cast<u64>(real) / 2 + 1));
    i64 masked = 0;
    for (i64 i = 0; i < length; ++i) {
      const i64 at = begin + i;
      const i64 segment = i >= real / 2 && i < real ? 1 : 0;
      const auto letter =
          static_cast<i64>('a' + (start + static_cast<u64>(i) * (1 + segment * (step % 3))) % 26);
      static_cast<i64*>(to["tokens"])[at] = i < real ? letter : 0;
      static_cast<i64*>(to["segments"])[at] = segment;
      static_cast<i32*>(to["last"])[at] = static_cast<i32>(i < real ? begin + real - 1 : -1);
      if (is("choice")) {
        static_cast<i64*>(to["positions"])[at] = i;
        static_cast<i32*>(to["first"])[at] = static_cast<i32>(begin);
      }
      if (is("span")) static_cast<u8*>(to["answerable"])[at] = i == 0 || segment == 1 ? 1 : 0;
      const bool hidden = is("masked") && i > 0 && i < real && (start + 5 * i) % 4 == 0 &&
                          masked < std::max<i64>(1, static_cast<i64>(kMasked * real));
      if (!hidden) continue;
      ++masked;
      static_cast<i64*>(to["tokens"])[at] = kMask;
      static_cast<i64*>(to["targets"])[at] = letter;
      static_cast<u8*>(to["loss_mask"])[at] = 1;
    }
  }

  Config config_;
  i64 length_;
  u64 seed_;
};

}  // namespace

void register_pairs(Registrar& registrar) {
  registrar.add<Dataset, TestPairs>("test_pairs", "pairs of letters");
}

Sets bert(std::string_view order, const Sets& more) {
  return with({"model.type=\"bert\"",
               fmt::format("model.order=\"{}\"", order),
               "model.block.mlp.activation=\"gelu_erf\"",
               fmt::format("batch.sequence_length={}", kSequence),
               "data.type=\"test_pairs\""},
              more);
}

}  // namespace tessera::testing::bert_samples
