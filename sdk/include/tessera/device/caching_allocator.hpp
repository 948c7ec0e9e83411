#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <set>
#include <unordered_map>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/memory.hpp"

namespace tessera {

/// Gives out pieces of large slabs and keeps what comes back, so that a step that repeats asks the
/// system for nothing. A slab belongs to one stream: what a stream releases only its own later work
/// gets again. Best fit; a piece is split when given out and joined with its free neighbours when
/// it comes back. What it knows of a piece lives outside the memory, which is never touched.
///
/// The allocator outlives every block: releasing to a dead one is undefined.
class TESSERA_API CachingAllocator final : public Pool {
 public:
  struct Options {
    /// Waits until no work is left that uses released memory. Called before slabs go back to the
    /// source because it has no more; empty where work is done when a launch returns.
    std::function<void()> drain;
    /// Under ASan, marks memory that is not given out, and what a block has beyond the bytes asked
    /// for. Off where released memory may still be in use or is not this process's.
    bool mark = true;
    /// Slabs have a multiple of so many bytes, itself one of 4096.
    i64 slab_multiple = 4096;
  };

  explicit CachingAllocator(std::shared_ptr<MemorySource> source);
  CachingAllocator(std::shared_ptr<MemorySource> source, Options options);
  ~CachingAllocator() override;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  Block allocate(i64 bytes, Category category, Stream& stream) override;
  /// Throws Error when the block is not in use, for example released twice.
  void release(const Block& block) override;

  const MemoryStats& stats() const { return stats_; }
  void reset_peaks();

  /// Bytes that a request for `bytes` takes: at least 512, less than 1/8 more than asked for.
  static i64 rounded(i64 bytes);

 private:
  struct Slab;
  /// A part of a slab, free or in use; linked to its neighbours in the slab.
  struct Piece {
    std::byte* address = nullptr;
    i64 bytes = 0;
    Slab* slab = nullptr;
    Piece* before = nullptr;
    Piece* after = nullptr;
    bool used = false;
    Category category = Category::activations;
  };
  struct Smaller {
    bool operator()(const Piece* a, const Piece* b) const;
  };
  using Free = std::pmr::set<Piece*, Smaller>;
  struct Slab {
    std::byte* address;
    i64 bytes;
    Free* free;       // where its free pieces are
    i64 touched = 0;  // from its start: what was ever given out lies within
  };
  /// Free pieces of one stream. Small ones have slabs of their own, lest they cut up large ones.
  struct OfStream {
    explicit OfStream(std::pmr::memory_resource* memory) : small(memory), large(memory) {}
    Free small, large;
  };

  OfStream& of(Stream& stream);
  Piece* take(Free& free, i64 bytes);
  Piece* grow(Free& free, i64 bytes, bool small);
  bool trim();
  Piece* make_piece();
  void drop_piece(Piece* piece);
  void split(Piece* piece, i64 bytes);
  Piece* join(Piece* left, Piece* right);
  void count(Category category, i64 bytes);

  std::shared_ptr<MemorySource> source_;
  Options options_;
  std::pmr::unsynchronized_pool_resource nodes_;
  std::deque<Piece> pieces_;
  std::vector<Piece*> spare_;  // of pieces_
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::map<Stream*, OfStream> by_stream_;
  std::pmr::unordered_map<void*, Piece*> used_;
  MemoryStats stats_;
};

}  // namespace tessera
