#include "sentence_cut.hpp"

#include <utility>

#include "kept_name.hpp"
#include "tessera/error.hpp"

namespace tessera {

SentenceCut::SentenceCut(Part part, const SentenceRequest& request, const std::string& keep_in)
    : part_(std::move(part)) {
  const std::string name = kept_name("sentences",
                                     fmt::format("{:016x} {} {} {} {} {} {} {} {}",
                                                 part_.file->hash(),
                                                 part_.items.begin,
                                                 part_.items.end,
                                                 request.longest,
                                                 request.short_share,
                                                 request.samples.value_or(-1),
                                                 request.least,
                                                 request.seed,
                                                 request.megatron));
  kept_ = std::make_unique<KeptBytes>(
      keep_in, name, [&] { return build_sentence_map(part_, request); }, reads_as<SentenceMap>);
  map_ = std::make_unique<SentenceMap>(kept_->bytes());
}

void SentenceCut::find(i64 number, Sample& sample) const {
  require(number < size(), "a blend that was kept is damaged");
  const SentenceRun& run = map_->runs()[static_cast<std::size_t>(number)];
  const TokenIndex& index = part_.file->index();
  require(run.first >= 0 && run.count >= 1 && run.first <= index.sequences() - i64{run.count},
          "a map of sentences that was kept is damaged");
  sample.file = part_.file.get();
  sample.number = number;
  sample.target = run.target;
  sample.pieces.clear();
  for (i64 i = run.first; i < run.first + i64{run.count}; ++i) {
    sample.pieces.push_back({index.begin(i), index.length(i)});
  }
}

}  // namespace tessera
