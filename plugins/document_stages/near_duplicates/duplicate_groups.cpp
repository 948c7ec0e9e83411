#include "duplicate_groups.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <utility>

#include "min_hash.hpp"
#include "shingles.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera {
namespace {

struct Pair {
  i64 a = 0, b = 0;
  double similarity = 0;
};

u64 band_of(const DocumentSet& documents, i64 number, int band) {
  u64 hash = 0;
  std::memcpy(&hash,
              documents.sketch(number).data() + static_cast<std::size_t>(band) * sizeof hash,
              sizeof hash);
  return hash;
}

// Groups of documents, each known by its first (disjoint sets, Tarjan 1975).
class Groups {
 public:
  explicit Groups(i64 documents) : above_(static_cast<std::size_t>(documents)) {
    std::iota(above_.begin(), above_.end(), i64{0});
  }
  i64 first_of(i64 number) {
    while (above(number) != number) {
      above(number) = above(above(number));
      number = above(number);
    }
    return number;
  }
  /// False where they are of one group already.
  bool join(i64 a, i64 b) {
    a = first_of(a), b = first_of(b);
    if (a == b) return false;
    above(std::max(a, b)) = std::min(a, b);
    return true;
  }

 private:
  i64& above(i64 number) { return above_[static_cast<std::size_t>(number)]; }
  std::vector<i64> above_;
};

// Fills in how similar pairs are. Those of one `a` are neighbours.
void verify(const DocumentSet& documents, std::vector<Pair>& pairs) {
  std::vector<std::size_t> begins;  // of runs of one `a`, none too long for a thread
  constexpr std::size_t kLongestRun = 64;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const bool begins_run = i == 0 || pairs[i].a != pairs[i - 1].a;
    if (begins_run || i - begins.back() >= kLongestRun) begins.push_back(i);
  }
  begins.push_back(pairs.size());
  std::mutex mutex;
  std::exception_ptr error;
  std::atomic<i64> next = 0;  // runs take unequal time
  const auto runs = static_cast<i64>(begins.size()) - 1;
  parallel_for(parallel_threads(), 1, [&](i64, i64) {
    try {
      ShingleSet a, b;
      for (i64 run = next++; run < runs; run = next++) {
        const auto from = begins[static_cast<std::size_t>(run)];
        const auto to = begins[static_cast<std::size_t>(run) + 1];
        a.assign(documents.text(pairs[from].a));
        for (std::size_t i = from; i < to; ++i) {
          b.assign(documents.text(pairs[i].b));
          pairs[i].similarity = ShingleSet::jaccard(a, b);
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
}

class Search {
 public:
  Search(const DocumentSet& documents, double similarity)
      : documents_(documents), similarity_(similarity), groups_(documents.size()) {}

  std::vector<DocumentRemoval> run() {
    for (int band = 0; band < kBands; ++band) search(band);
    return removals();
  }

 private:
  using Members = std::vector<std::pair<u64, i64>>;  // hash of the band, number

  void search(int band) {
    Members members;
    members.reserve(static_cast<std::size_t>(documents_.size()));
    for (i64 i = 0; i < documents_.size(); ++i)
      members.emplace_back(band_of(documents_, i, band), i);
    std::ranges::sort(members);
    std::vector<std::pair<std::size_t, std::size_t>> open;  // ranges of equal hashes
    for (std::size_t begin = 0, end = 0; begin < members.size(); begin = end) {
      while (end < members.size() && members[end].first == members[begin].first) ++end;
      if (end - begin > 1) open.emplace_back(begin, end);
    }
    // Round by round the next member of each range is compared with those after it; most ranges
    // are one group after the first.
    for (std::size_t round = 0; !open.empty(); ++round) {
      std::vector<Pair> pairs;
      for (const auto& [begin, end] : open) {
        const i64 a = members[begin + round].second;
        for (std::size_t i = begin + round + 1; i < end; ++i) {
          const i64 b = members[i].second;
          if (groups_.first_of(a) == groups_.first_of(b) || was_compared(a, b, band)) continue;
          pairs.push_back({a, b});
          if (pairs.size() >= kPairsAtOnce) join(pairs);
        }
      }
      join(pairs);
      std::erase_if(open, [&](const auto& range) {
        return range.second - range.first <= round + 2 || is_one_group(members, range);
      });
    }
  }

  // An earlier band of theirs is equal, so they were candidates there.
  bool was_compared(i64 a, i64 b, int band) const {
    for (int i = 0; i < band; ++i) {
      if (band_of(documents_, a, i) == band_of(documents_, b, i)) return true;
    }
    return false;
  }

  bool is_one_group(const Members& members, const std::pair<std::size_t, std::size_t>& range) {
    const i64 first = groups_.first_of(members[range.first].second);
    for (std::size_t i = range.first + 1; i < range.second; ++i) {
      if (groups_.first_of(members[i].second) != first) return false;
    }
    return true;
  }

  void join(std::vector<Pair>& pairs) {
    verify(documents_, pairs);
    for (const Pair& pair : pairs) {
      if (pair.similarity > similarity_ && groups_.join(pair.a, pair.b)) joins_.push_back(pair);
    }
    pairs.clear();
  }

  // The joins are the edges of a tree for each group: each document goes by the edge that leads to
  // its first.
  std::vector<DocumentRemoval> removals() {
    std::vector<Pair> edges = joins_;
    for (const Pair& pair : joins_) edges.push_back({pair.b, pair.a, pair.similarity});
    std::ranges::sort(edges, {}, [](const Pair& edge) { return std::pair(edge.a, edge.b); });
    std::vector<DocumentRemoval> out;
    std::vector<i64> reached;
    for (const Pair& edge : edges) {
      if (groups_.first_of(edge.a) == edge.a && (reached.empty() || reached.back() != edge.a)) {
        reached.push_back(edge.a);
      }
    }
    std::vector<bool> done(static_cast<std::size_t>(documents_.size()));
    for (const i64 first : reached) done[static_cast<std::size_t>(first)] = true;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const i64 here = reached[i];
      auto edge = std::ranges::lower_bound(edges, here, {}, &Pair::a);
      for (; edge != edges.end() && edge->a == here; ++edge) {
        if (done[static_cast<std::size_t>(edge->b)]) continue;
        done[static_cast<std::size_t>(edge->b)] = true;
        out.push_back({edge->b, here, edge->similarity});
        reached.push_back(edge->b);
      }
    }
    return out;
  }

  static constexpr std::size_t kPairsAtOnce = 4096;
  const DocumentSet& documents_;
  double similarity_;
  Groups groups_;
  std::vector<Pair> joins_;
};

}  // namespace

std::vector<DocumentRemoval> duplicates(const DocumentSet& documents, double similarity) {
  return Search(documents, similarity).run();
}

}  // namespace tessera
