#include "megatron_order.hpp"

#include <algorithm>
#include <exception>
#include <numeric>

#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

// Part of the names of kept arrays: another version of them has another one.
constexpr int kVersion = 1;

std::string kept_name(std::string_view what, const std::string& decides) {
  return fmt::format("{}-{:016x}", what, hash64(fmt::format("{} {}", kVersion, decides)));
}

template <class View>
bool reads_as(std::string_view bytes) {
  try {
    const View view(bytes);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

MegatronOrder::MegatronOrder(std::vector<Part> parts,
                             const std::vector<double>& weights,
                             const Settings& settings)
    : settings_(settings) {
  const std::optional<i64>& samples = settings_.samples;
  const bool alone = parts.size() == 1 && weights.empty();
  const std::vector<double> shares = normalized(weights);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::optional<i64> request;
    if (samples && alone) request = *samples;
    if (samples && !weights.empty()) request = blend_request(*samples, shares[i]);
    add_source(std::move(parts[i]), request);
  }
  if (alone) {
    size_ = sources_[0].index->samples();
  } else {
    blend(shares, samples);
  }
}

void MegatronOrder::add_source(Part part, std::optional<i64> samples) {
  const IndexRequest request{settings_.length, samples, settings_.seed, settings_.tail};
  const std::string name = kept_name("index",
                                     fmt::format("{:016x} {} {} {} {} {} {}",
                                                 part.file->hash(),
                                                 part.items.begin,
                                                 part.items.end,
                                                 request.length,
                                                 request.samples.value_or(-1),
                                                 request.seed,
                                                 request.tail));
  Source source{std::move(part), nullptr, nullptr};
  source.kept = std::make_unique<KeptBytes>(
      settings_.keep_in,
      name,
      [&] { return build_index(source.part, request); },
      reads_as<MegatronIndex>);
  source.index = std::make_unique<MegatronIndex>(source.kept->bytes());
  sources_.push_back(std::move(source));
}

void MegatronOrder::blend(const std::vector<double>& shares, const std::optional<i64>& samples) {
  std::vector<i64> sizes;
  for (const Source& source : sources_) sizes.push_back(source.index->samples());
  // A set without weights has each sample once.
  const bool exhaustive = shares.empty() && !samples;
  std::vector<double> drawn_by = shares;
  std::optional<i64> wanted = samples;
  if (shares.empty()) {
    drawn_by.assign(sizes.begin(), sizes.end());
    const i64 all = std::accumulate(sizes.begin(), sizes.end(), i64{0});
    if (samples) wanted = std::min(*samples, all);
  } else if (samples) {
    wanted = 0;
    for (const double share : shares) *wanted += blend_target(*samples, share);
  }
  drawn_by = normalized(drawn_by);  // there the weights of a blend are divided a second time
  std::string decides = fmt::format("{} {}", exhaustive, wanted.value_or(-1));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    decides += fmt::format(" {} {}", drawn_by[i], sizes[i]);
  }
  kept_blend_ = std::make_unique<KeptBytes>(
      settings_.keep_in,
      kept_name("blend", decides),
      [&] {
        return exhaustive ? build_exhaustive_blend(sizes) : build_blend(drawn_by, sizes, wanted);
      },
      reads_as<MegatronBlend>);
  blend_ = std::make_unique<MegatronBlend>(kept_blend_->bytes());
  size_ = blend_->size();
}

void MegatronOrder::find(i64 ordinal, Sample& sample) const {
  require(ordinal < size_,
          "order = \"megatron\" has {} samples, sample {} was asked for",
          size_,
          ordinal);
  std::size_t set = 0;
  if (blend_ != nullptr) {
    set = blend_->set(ordinal);
    ordinal = blend_->ordinal(ordinal);
    require(set < sources_.size(), "a blend that was kept is damaged");
  }
  const Source& source = sources_[set];
  const TokenIndex& index = source.part.file->index();
  const auto documents = source.index->documents();
  const auto starts = source.index->starts();
  const auto count = static_cast<i64>(documents.size());
  require(ordinal < source.index->samples(), "a blend that was kept is damaged");
  const i64 at = source.index->shuffle()[static_cast<std::size_t>(ordinal)];
  require(at < source.index->samples(), "an index that was kept is damaged");
  auto [place, token] = starts[static_cast<std::size_t>(at)];

  sample.file = source.part.file.get();
  sample.pieces.clear();
  for (i64 missing = settings_.length + 1; missing > 0 && place < count; ++place, token = 0) {
    const i64 document = place >= 0 ? documents[static_cast<std::size_t>(place)] : -1;
    require(document >= 0 && document < index.sequences() && token >= 0,
            "an index that was kept is damaged");
    const i64 here = index.length(document) - token, used = std::min(here, missing);
    if (used > 0) sample.pieces.push_back({index.begin(document) + token, used, used == here});
    missing -= used;
  }
}

}  // namespace tessera
