#include "megatron_index.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "arrays.hpp"
#include "numpy_draws.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::string_view kIndexName = "megindx1";

// How often the documents are read, and how many of the samples lie in the epochs that are shuffled
// together: all of them, or those before a last epoch of which little is needed.
struct Epochs {
  i64 count = 1;
  i64 together = 0;
  bool last_apart = false;
};

Epochs epochs_of(i64 tokens, const IndexRequest& request) {
  Epochs out;
  if (request.samples) {
    const i64 needed = *request.samples * request.length + 1;
    out.count = std::max<i64>(1, (needed + tokens - 1) / tokens);
  }
  out.together = samples_of(out.count * tokens, request.length, request.tail);
  if (out.count == 1) return out;
  const i64 before = ((out.count - 1) * tokens - 1) / request.length;
  const i64 in_epoch = (tokens - 1) / request.length;
  constexpr double kShare = 0.80;
  const auto enough = static_cast<i64>(kShare * static_cast<double>(in_epoch));
  out.last_apart = *request.samples - before < enough;
  if (out.last_apart) out.together = before;
  return out;
}

std::vector<i32> documents_of(const Part& part,
                              const Epochs& epochs,
                              NumpyDraws<std::mt19937>& draws) {
  std::vector<i32> documents;
  documents.reserve(static_cast<std::size_t>(epochs.count * part.items.size()));
  const auto add = [&](i64 count) {
    const std::size_t begin = documents.size();
    for (i64 epoch = 0; epoch < count; ++epoch) {
      for (i64 i = part.items.begin; i < part.items.end; ++i) {
        documents.push_back(static_cast<i32>(i));
      }
    }
    draws.shuffle(std::span(documents).subspan(begin));
  };
  add(epochs.last_apart ? epochs.count - 1 : epochs.count);
  if (epochs.last_apart) add(1);
  return documents;
}

std::vector<MegatronIndex::Start> starts_of(const TokenIndex& index,
                                            const std::vector<i32>& documents,
                                            i64 length,
                                            i64 samples) {
  std::vector<MegatronIndex::Start> starts = {{0, 0}};
  starts.reserve(static_cast<std::size_t>(samples) + 1);
  const i64 last = static_cast<i64>(documents.size()) - 1;
  MegatronIndex::Start at{0, 0};
  const auto length_at = [&](i64 place) {
    return index.length(documents[static_cast<std::size_t>(place)]);
  };
  for (i64 sample = 0; sample < samples; ++sample) {
    // The token after a sample begins the next one: each has one more than its length.
    for (i64 missing = length + 1; missing > 0;) {
      const i64 here = length_at(at.place) - at.token;
      if (here >= missing) {
        at.token += missing - 1;
        break;
      }
      if (at.place == last) {
        at.token = length_at(last) - 1;
        break;
      }
      missing -= here;
      at = {at.place + 1, 0};
    }
    starts.push_back(at);
  }
  return starts;
}

}  // namespace

i64 samples_of(i64 tokens, i64 length, bool tail) {
  if (!tail) return (tokens - 1) / length;
  return static_cast<i64>(std::ceil(static_cast<float>(tokens - 1) / static_cast<float>(length)));
}

std::string build_index(const Part& part, const IndexRequest& request) {
  const i64 tokens = part.tokens();
  require(tokens > 0, "a part without tokens has no samples");
  const Epochs epochs = epochs_of(tokens, request);
  const i64 samples = samples_of(epochs.count * tokens, request.length, request.tail);
  const i64 documents_in_all = epochs.count * part.items.size();
  require(part.items.end <= std::numeric_limits<i32>::max() &&
              samples < std::numeric_limits<u32>::max() - 1,
          "order = \"megatron\" counts {} documents and {} samples with 32 bits",
          documents_in_all,
          samples);

  NumpyDraws<std::mt19937> draws = numpy_random_state(request.seed);
  const std::vector<i32> documents = documents_of(part, epochs, draws);
  const auto starts = starts_of(part.file->index(), documents, request.length, samples);
  std::vector<u32> order(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<u32>(i);
  const auto together = static_cast<std::size_t>(epochs.together);
  draws.shuffle(std::span(order).first(together));
  if (together < order.size()) draws.shuffle(std::span(order).subspan(together));

  return join_arrays(kIndexName, starts, documents, order);
}

MegatronIndex::MegatronIndex(std::string_view bytes) {
  const bool right = view_arrays(bytes, kIndexName, starts_, documents_, shuffle_) &&
                     starts_.size() == shuffle_.size() + 1;
  require(right, "{} bytes that are no index of documents and samples", bytes.size());
}

}  // namespace tessera
