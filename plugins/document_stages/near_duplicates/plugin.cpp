#include <algorithm>
#include <cstring>

#include "duplicate_groups.hpp"
#include "min_hash.hpp"
#include "tessera/document_stage.hpp"
#include "tessera/plugin.hpp"

namespace tessera {
namespace {

class Comparison final : public DocumentComparison {
 public:
  explicit Comparison(double similarity) : similarity_(similarity) {}
  i64 sketch_bytes() const override { return kBands * static_cast<i64>(sizeof(u64)); }
  void sketch(std::string_view text, std::span<std::byte> out) const override {
    const auto bands = band_hashes(text);
    std::memcpy(out.data(), bands.data(), sizeof bands);
  }
  std::vector<DocumentRemoval> decide(const DocumentSet& documents) const override {
    return duplicates(documents, similarity_);
  }

 private:
  double similarity_;
};

class NearDuplicates final : public DocumentStage {
 public:
  struct Config {
    double similarity = 0.7;
    static void describe(Schema<Config>& s) {
      // Below 0.6 the bands would miss more than one pair of a hundred.
      s.field("similarity",
              &Config::similarity,
              "two documents are alike whose Jaccard index of runs of five characters is above it")
          .at_least(0.6)
          .below(1);
    }
  };
  NearDuplicates(const Config& config, DocumentStageArguments&) : similarity_(config.similarity) {}

 private:
  std::unique_ptr<DocumentComparison> do_comparison() const override {
    return std::make_unique<Comparison>(similarity_);
  }
  double similarity_;
};

}  // namespace
}  // namespace tessera

TESSERA_PLUGIN(stage_near_duplicates, "0.1.0", "Removes documents that are like another one") {
  registrar.add<tessera::DocumentStage, tessera::NearDuplicates>(
      "near_duplicates",
      "Of documents that are alike the first stays: candidates by 128 MinHashes in 32 bands of "
      "four, each verified by its text.");
}
