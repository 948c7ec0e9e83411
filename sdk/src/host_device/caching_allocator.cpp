#include "tessera/device/caching_allocator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>
#include <vector>

#include "sdk/src/host_device/address_marks.hpp"
#include "tessera/device/device.hpp"
#include "tessera/error.hpp"
#include "tessera/io/size_text.hpp"

namespace tessera {
namespace {

constexpr i64 kLeast = 512;
constexpr i64 kCoarsest = i64{2} << 20;
constexpr i64 kSmall = i64{1} << 20;  // largest small request
constexpr i64 kSmallSlab = i64{8} << 20;
constexpr i64 kLargeSlab = i64{16} << 20;  // requests beyond half of it get a slab of their size

i64 round_up(i64 bytes, i64 multiple) { return (bytes + multiple - 1) / multiple * multiple; }

/// " (12.3 GiB of activations, 1.20 GiB of parameters)", the largest first; empty: nothing is.
std::string by_category(const MemoryStats& stats) {
  std::vector<std::pair<i64, std::string_view>> uses;
  for (int i = 0; i < kCategories; ++i) {
    const i64 bytes = stats.bytes[static_cast<std::size_t>(i)];
    if (bytes > 0) uses.emplace_back(bytes, category_name(static_cast<Category>(i)));
  }
  std::ranges::sort(uses, std::greater());
  std::string text;
  for (const auto& [bytes, name] : uses) {
    text += fmt::format(
        "{}{} of {}", text.empty() ? " (" : ", ", size_text(static_cast<double>(bytes)), name);
  }
  return text.empty() ? "" : text + ")";
}

}  // namespace

bool CachingAllocator::Smaller::operator()(const Piece* a, const Piece* b) const {
  return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
}

CachingAllocator::CachingAllocator(std::shared_ptr<MemorySource> source)
    : CachingAllocator(std::move(source), Options()) {}

CachingAllocator::CachingAllocator(std::shared_ptr<MemorySource> source, Options options)
    : source_(std::move(source)), options_(std::move(options)), used_(&nodes_) {
  require(source_ != nullptr, "a caching allocator needs a memory source");
}

CachingAllocator::~CachingAllocator() {
  for (const auto& slab : slabs_) {
    if (options_.mark) mark_usable(slab->address, slab->bytes);
    source_->release(slab->address, slab->bytes);
  }
}

i64 CachingAllocator::rounded(i64 bytes) {
  if (bytes <= kLeast) return kLeast;
  const auto power = static_cast<i64>(std::bit_floor(static_cast<u64>(bytes)));
  return round_up(bytes, std::clamp(power / 8, kLeast, kCoarsest));
}

Block CachingAllocator::allocate(i64 bytes, Category category, Stream& stream) {
  require(bytes >= 0, "cannot allocate {} bytes", bytes);
  const i64 size = rounded(bytes);
  const bool small = size <= kSmall;
  OfStream& own = of(stream);
  Free& free = small ? own.small : own.large;
  Piece* piece = take(free, size);
  if (!piece) piece = grow(free, size, small);
  if (!piece) {
    const std::string limit = source_->limit();
    throw Error(fmt::format("out of memory: {} bytes for {}; {} bytes are in use{} and {} "
                            "reserved{}{}. A smaller [batch] micro, recompute or more ranks need "
                            "less",
                            bytes,
                            category_name(category),
                            stats_.total,
                            by_category(stats_),
                            stats_.reserved,
                            limit.empty() ? "" : ", ",
                            limit))
        .add(Resource::memory);
  }
  split(piece, size);
  used_.emplace(piece->address, piece);
  piece->used = true;
  piece->category = category;
  Slab& slab = *piece->slab;
  const i64 end = piece->address + piece->bytes - slab.address;
  stats_.touched += std::max<i64>(0, end - slab.touched);
  slab.touched = std::max(slab.touched, end);
  count(category, piece->bytes);
  if (options_.mark) mark_usable(piece->address, bytes);
  return {piece->address, piece->bytes, category, &stream};
}

void CachingAllocator::release(const Block& block) {
  const auto found = used_.find(block.address);
  require(found != used_.end(),
          "release of {} bytes ({}) at {} that are not in use: released twice, or not of this pool",
          block.bytes,
          category_name(block.category),
          fmt::ptr(block.address));
  Piece* piece = found->second;
  used_.erase(found);
  count(piece->category, -piece->bytes);
  if (options_.mark) mark_unusable(piece->address, piece->bytes);
  piece->used = false;
  Free& free = *piece->slab->free;
  for (Piece* neighbour : {piece->before, piece->after}) {
    if (!neighbour || neighbour->used) continue;
    free.erase(neighbour);
    piece = neighbour == piece->before ? join(neighbour, piece) : join(piece, neighbour);
  }
  free.insert(piece);
}

void CachingAllocator::reset_peaks() {
  stats_.peak = stats_.bytes;
  stats_.total_peak = stats_.total;
}

CachingAllocator::OfStream& CachingAllocator::of(Stream& stream) {
  return by_stream_.try_emplace(&stream, &nodes_).first->second;
}

CachingAllocator::Piece* CachingAllocator::take(Free& free, i64 bytes) {
  Piece least;
  least.bytes = bytes;
  const auto found = free.lower_bound(&least);
  if (found == free.end()) return nullptr;
  Piece* piece = *found;
  free.erase(found);
  return piece;
}

/// A whole new slab, in use by nobody; nullptr when the source has none even after trim().
CachingAllocator::Piece* CachingAllocator::grow(Free& free, i64 bytes, bool small) {
  const i64 exact = round_up(bytes, options_.slab_multiple);
  const i64 usual = small ? kSmallSlab : bytes > kLargeSlab / 2 ? exact : kLargeSlab;
  i64 size = usual;
  void* address = nullptr;
  const auto reserve = [&](i64 wanted) {
    ++stats_.system_calls;
    size = wanted;
    address = source_->reserve(wanted);
    return address != nullptr;
  };
  if (!reserve(usual) && !(exact < usual && reserve(exact)) && !(trim() && reserve(exact))) {
    return nullptr;
  }
  stats_.reserved += size;
  if (options_.mark) mark_unusable(address, size);
  slabs_.push_back(std::make_unique<Slab>(Slab{static_cast<std::byte*>(address), size, &free}));
  Piece* piece = make_piece();
  piece->address = slabs_.back()->address;
  piece->bytes = size;
  piece->slab = slabs_.back().get();
  return piece;
}

/// Gives slabs that nobody uses back to the source.
bool CachingAllocator::trim() {
  if (options_.drain) options_.drain();
  bool any = false;
  for (auto& [stream, blocks] : by_stream_) {
    for (Free* free : {&blocks.small, &blocks.large}) {
      for (auto it = free->begin(); it != free->end();) {
        Piece* piece = *it;
        if (piece->before || piece->after) {
          ++it;
          continue;
        }
        it = free->erase(it);
        Slab* slab = piece->slab;
        drop_piece(piece);
        if (options_.mark) mark_usable(slab->address, slab->bytes);
        ++stats_.system_calls;
        source_->release(slab->address, slab->bytes);
        stats_.reserved -= slab->bytes;
        stats_.touched -= slab->touched;
        std::erase_if(slabs_, [slab](const auto& other) { return other.get() == slab; });
        any = true;
      }
    }
  }
  return any;
}

CachingAllocator::Piece* CachingAllocator::make_piece() {
  if (spare_.empty()) return &pieces_.emplace_back();
  Piece* piece = spare_.back();
  spare_.pop_back();
  *piece = Piece();
  return piece;
}

void CachingAllocator::drop_piece(Piece* piece) { spare_.push_back(piece); }

/// Cuts what `piece` has beyond `bytes` off and makes it free.
void CachingAllocator::split(Piece* piece, i64 bytes) {
  if (piece->bytes == bytes) return;
  Piece* rest = make_piece();
  rest->address = piece->address + bytes;
  rest->bytes = piece->bytes - bytes;
  rest->slab = piece->slab;
  rest->before = piece;
  rest->after = piece->after;
  if (rest->after) rest->after->before = rest;
  piece->after = rest;
  piece->bytes = bytes;
  rest->slab->free->insert(rest);
}

CachingAllocator::Piece* CachingAllocator::join(Piece* left, Piece* right) {
  left->bytes += right->bytes;
  left->after = right->after;
  if (left->after) left->after->before = left;
  drop_piece(right);
  return left;
}

void CachingAllocator::count(Category category, i64 bytes) {
  const auto index = static_cast<std::size_t>(category);
  stats_.bytes[index] += bytes;
  stats_.total += bytes;
  stats_.peak[index] = std::max(stats_.peak[index], stats_.bytes[index]);
  stats_.total_peak = std::max(stats_.total_peak, stats_.total);
}

}  // namespace tessera
