#include "simd/kernels_of_isa.hpp"
#include "simd/targets.hpp"
#include "tessera/parallel_for.hpp"

// Products of the rows of experts, one launch for all. How many rows an expert has is known here
// only, so nothing is made or kept for a load: threads share rows (products) or the features of
// the result (weight gradients), each as many, whatever the load; and each packs what it needs of
// both factors into a workspace of its own, whose size follows from the shapes.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr i64 kGroupBytes = 4 << 20;  // of packed a, a thread: fits the cache that cores share
constexpr i64 kLeastRows = 64;        // of a thread, before threads share columns as well
/// Rows of an expert that are summed before they are added: their panel fits a core's cache.
template <class T>
constexpr i64 kRowsAtOnce = 1024 * Packed<T>::kDepth;

/// Where each expert's rows begin; the last is where the padding does.
struct Experts {
  i64 count, begin[RouterSpec::kMaxExperts + 1];
  Experts(const TensorArg& counts, i64 rows) : count(counts.shape[0]) {
    const i64* n = counts.as<const i64>();
    begin[0] = 0;
    for (i64 e = 0; e < count; ++e) begin[e + 1] = at_most(rows, begin[e] + (n[e] > 0 ? n[e] : 0));
  }
};

/// How the [rows, columns] of a result are shared by the threads.
struct Grid {
  i64 row_parts, column_parts;
  i64 size() const { return row_parts * column_parts; }
};
inline Grid grid_of(i64 rows, i64 least_rows, i64 columns) {
  const i64 threads = parallel_threads();
  i64 row_parts = at_most(threads, rows / least_rows);
  if (row_parts < 1) row_parts = 1;
  i64 column_parts = at_most(threads / row_parts, columns / kPanel);
  if (column_parts < 1) column_parts = 1;
  return {row_parts, column_parts};
}

/// Whether rows of a factor are multiplied where they lie: their elements are words.
template <class T>
constexpr bool kWordsLie = sizeof(T) * Packed<T>::kDepth == sizeof(typename Packed<T>::Word);
template <class T>
bool multiplied_in_place(i64 depth_stride, i64 depth) {
  return kWordsLie<T> && depth_stride == 1 && depth % Packed<T>::kDepth == 0;
}

/// Where a thread packs a panel of b and, unless rows of a are multiplied in place, a group of
/// them. Made for the largest depth; a smaller one uses less of it.
template <class T>
struct Room {
  i64 panel_words, group_rows, words;
  Room(i64 rows, i64 depth, bool in_place) {
    const i64 steps = packed_steps<T>(depth);
    const i64 word = static_cast<i64>(sizeof(typename Packed<T>::Word));
    const i64 fit = kGroupBytes / (steps * word + 1) / kRowUnit * kRowUnit;
    group_rows = at_most(fit < kRowUnit ? kRowUnit : fit, round_up(rows, kRowUnit));
    panel_words = steps * kPanel;
    words = round_up(panel_words + (in_place ? 0 : steps * group_rows), kLanes);
  }
};

/// Fetches, by and by, the lines of a factor that lie apart: streams too short for the processor
/// to foresee them.
template <class T>
struct Ahead {
  const T* data;
  i64 stride, lines, done = 0;
  void up_to(i64 line) {
    constexpr i64 kOfCacheLine = 64 / static_cast<i64>(sizeof(T));
    for (; done < line; ++done) {
      for (i64 i = 0; i < kPanel; i += kOfCacheLine) {
        __builtin_prefetch(data + done * stride + i, 0, 2);
      }
    }
  }
};

/// to [rows, columns] = or += a · b, by one thread. Columns of `to` and lines of b begin at 0. A
/// panel of b is packed, stays in the core's cache and meets all rows of a group; meanwhile the
/// next one is fetched.
template <class T, class To>
void product(const Room<T>& room,
             typename Packed<T>::Word* space,
             Factor<T> a,
             i64 rows,
             Factor<T> b,
             i64 columns,
             i64 depth,
             const To& to) {
  using Word = typename Packed<T>::Word;
  const i64 steps = steps_of<T>(depth);
  Word* const packed = space + room.panel_words;
  Results results(to);
  const auto multiply = [&](const auto& group, i64 row, i64 height) {
    for (i64 first = 0; first < columns; first += kPanel) {
      const i64 width = at_most(kPanel, columns - first);
      pack_panels(b, first, width, depth, [=](i64 slab) { return space + slab * kLanes; });
      const bool more = b.depth_stride != 1 && first + kPanel < columns;
      Ahead<T> next{b.data + first + kPanel, b.depth_stride, more ? depth : 0};
      for (i64 i = 0; i < height; i += kPackedRows) {
        product_of_rows(group, i, height, space, steps, results, row, first, width);
        next.up_to(next.lines * at_most(i + kPackedRows, height) / height);
      }
    }
  };
  if constexpr (kWordsLie<T>) {
    if (multiplied_in_place<T>(a.depth_stride, depth)) {
      return multiply(OwnGroup<T>{a.data, a.line_stride}, 0, rows);
    }
  }
  for (i64 row = 0; row < rows; row += room.group_rows) {
    const i64 height = at_most(room.group_rows, rows - row);
    pack_group(a, row, height, depth, packed);
    multiply(PackedGroup<Word>{packed}, row, height);
  }
}

inline Grid grid_of(const GroupedMatmulArgs& args) {
  return grid_of(args.out.shape[0], kLeastRows, args.out.shape[1]);
}
inline Grid grid_of(const GroupedWeightArgs& args) {
  return grid_of(args.out.shape[1], kLanes, args.out.shape[2]);
}
template <class T>
Room<T> room_of(const GroupedMatmulArgs& args) {
  const i64 depth = args.a.shape[1];
  return {args.out.shape[0], depth, multiplied_in_place<T>(1, depth)};
}
template <class T>
Room<T> room_of(const GroupedWeightArgs& args) {
  return {args.out.shape[1], at_most(args.a.shape[0], kRowsAtOnce<T>), false};
}

template <class T, class Args>
i64 bytes_for(const Args& args) {
  return grid_of(args).size() * room_of<T>(args).words *
         static_cast<i64>(sizeof(typename Packed<T>::Word));
}

template <class T>
void multiply(const GroupedMatmulArgs& args, void* workspace) {
  const i64 m = args.out.shape[0], n = args.out.shape[1], k = args.a.shape[1];
  const Grid grid = grid_of(args);
  const Room<T> room = room_of<T>(args);
  const Experts experts(args.counts, m);
  const T* const a = args.a.as<const T>();
  const T* const b = args.b.as<const T>();
  T* const out = args.out.as<T>();
  const bool transposed = args.transpose_b;
  auto* const words = static_cast<typename Packed<T>::Word*>(workspace);
  parallel_for(grid.size(), 1, [=, &experts](i64 from, i64 until) {
    const TileScope tiles;
    for (i64 part = from; part < until; ++part) {
      const i64 row_part = part / grid.column_parts, column_part = part % grid.column_parts;
      const i64 top = m * row_part / grid.row_parts, bottom = m * (row_part + 1) / grid.row_parts;
      const i64 left = n * column_part / grid.column_parts;
      const i64 columns = n * (column_part + 1) / grid.column_parts - left;
      for (i64 e = 0; e < experts.count; ++e) {
        const i64 row = experts.begin[e] > top ? experts.begin[e] : top;
        const i64 rows = at_most(bottom, experts.begin[e + 1]) - row;
        if (rows <= 0) continue;
        const Factor<T> matrix = transposed ? Factor<T>{b + e * k * n + left * k, k, 1}
                                            : Factor<T>{b + e * k * n + left, 1, n};
        const Put<Ending::write, T, T> to{{out + row * n + left, n, nullptr, false}};
        product(room, words + part * room.words, {a + row * k, k, 1}, rows, matrix, columns, k, to);
      }
      const i64 padding = experts.begin[experts.count];
      for (i64 row = padding > top ? padding : top; row < bottom; ++row) {
        __builtin_memset(out + row * n + left, 0, static_cast<std::size_t>(columns) * sizeof(T));
      }
    }
  });
}

template <class T, class Sum>
void add_weights(const GroupedWeightArgs& args, void* workspace) {
  const i64 m = args.a.shape[0], k = args.a.shape[1], n = args.grad.shape[1];
  const Grid grid = grid_of(args);
  const Room<T> room = room_of<T>(args);
  const Experts experts(args.counts, m);
  const T* const a = args.a.as<const T>();
  const T* const grad = args.grad.as<const T>();
  Sum* const out = args.out.as<Sum>();
  auto* const words = static_cast<typename Packed<T>::Word*>(workspace);
  parallel_for(grid.size(), 1, [=, &experts](i64 from, i64 until) {
    const TileScope tiles;
    for (i64 part = from; part < until; ++part) {
      const i64 row_part = part / grid.column_parts, column_part = part % grid.column_parts;
      const i64 top = k * row_part / grid.row_parts;
      const i64 rows = k * (row_part + 1) / grid.row_parts - top;
      const i64 left = n * column_part / grid.column_parts;
      const i64 columns = n * (column_part + 1) / grid.column_parts - left;
      for (i64 e = 0; e < experts.count; ++e) {
        const Put<Ending::accumulate, T, Sum> to{
            {out + (e * k + top) * n + left, n, nullptr, true}};
        for (i64 row = experts.begin[e]; row < experts.begin[e + 1]; row += kRowsAtOnce<T>) {
          const i64 depth = at_most(kRowsAtOnce<T>, experts.begin[e + 1] - row);
          const Factor<T> x{a + row * k + top, 1, k}, g{grad + row * n + left, 1, n};
          product(room, words + part * room.words, x, rows, g, columns, depth, to);
        }
      }
    }
  });
}

}  // namespace

template <>
i64 workspace_bytes(const GroupedMatmulArgs& args) {
  i64 bytes = 0;
  with_factors(args.a.dtype, [&]<class T>(T) { bytes = bytes_for<T>(args); });
  return bytes;
}

template <>
void run(const GroupedMatmulArgs& args, void* workspace) {
  with_factors(args.a.dtype, [&]<class T>(T) { multiply<T>(args, workspace); });
}

template <>
i64 workspace_bytes(const GroupedWeightArgs& args) {
  i64 bytes = 0;
  with_factors(args.a.dtype, [&]<class T>(T) { bytes = bytes_for<T>(args); });
  return bytes;
}

template <>
void run(const GroupedWeightArgs& args, void* workspace) {
  with_factors(args.a.dtype, [&]<class T>(T) {
    if (args.out.dtype == DType::fp32) {
      add_weights<T, float>(args, workspace);
    } else {
      add_weights<T, T>(args, workspace);
    }
  });
}

}  // namespace tessera::cpu::TESSERA_ISA
