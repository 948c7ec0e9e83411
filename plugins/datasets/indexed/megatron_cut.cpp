#include "megatron_cut.hpp"

#include <algorithm>
#include <utility>

#include "kept_name.hpp"
#include "tessera/error.hpp"

namespace tessera {

MegatronCut::MegatronCut(Part part, const IndexRequest& request, const std::string& keep_in)
    : part_(std::move(part)), length_(request.length) {
  const std::string name = kept_name("index",
                                     fmt::format("{:016x} {} {} {} {} {} {}",
                                                 part_.file->hash(),
                                                 part_.items.begin,
                                                 part_.items.end,
                                                 request.length,
                                                 request.samples.value_or(-1),
                                                 request.seed,
                                                 request.tail));
  kept_ = std::make_unique<KeptBytes>(
      keep_in, name, [&] { return build_index(part_, request); }, reads_as<MegatronIndex>);
  index_ = std::make_unique<MegatronIndex>(kept_->bytes());
}

void MegatronCut::find(i64 number, Sample& sample) const {
  const TokenIndex& index = part_.file->index();
  const auto documents = index_->documents();
  const auto starts = index_->starts();
  const auto count = static_cast<i64>(documents.size());
  require(number < index_->samples(), "a blend that was kept is damaged");
  const i64 at = index_->shuffle()[static_cast<std::size_t>(number)];
  require(at < index_->samples(), "an index that was kept is damaged");
  auto [place, token] = starts[static_cast<std::size_t>(at)];

  sample.file = part_.file.get();
  sample.pieces.clear();
  for (i64 missing = length_ + 1; missing > 0 && place < count; ++place, token = 0) {
    const i64 document = place >= 0 ? documents[static_cast<std::size_t>(place)] : -1;
    require(document >= 0 && document < index.sequences() && token >= 0,
            "an index that was kept is damaged");
    const i64 here = index.length(document) - token, used = std::min(here, missing);
    if (used > 0) sample.pieces.push_back({index.begin(document) + token, used, used == here});
    missing -= used;
  }
}

}  // namespace tessera
