// The dataset `constant_tokens`: every token is 1. It costs what no dataset can do without.
#include <algorithm>

#include "tessera/data.hpp"
#include "tessera/plugin.hpp"

namespace tessera {
namespace {

class ConstantTokens final : public Dataset {
 public:
  struct Config {
    static void describe(Schema<Config>&) {}
  };
  ConstantTokens(const Config&, DatasetArguments& arguments) : length_(arguments.sequence_length) {}

 private:
  std::vector<FieldInfo> do_fields() const override {
    return {{"tokens"}, {"targets"}, {"loss_mask", DType::u8, "lm"}};
  }
  i64 do_size(SampleSet) const override { return 1 << 20; }
  void do_read(SampleSet, i64, const SampleBuffers& out) const override {
    for (const std::size_t field : {0, 1}) {
      std::fill_n(static_cast<i64*>(out.fields[field]), length_, i64{1});
    }
    std::fill_n(static_cast<u8*>(out.fields[2]), length_, u8{1});
  }
  std::string do_fingerprint() const override { return "constant tokens"; }

  i64 length_;
};

}  // namespace
}  // namespace tessera

TESSERA_PLUGIN(constant_tokens, "0.1.0", "A dataset for benchmarks") {
  registrar.add<tessera::Dataset, tessera::ConstantTokens>("constant_tokens",
                                                           "every token is the same");
}
