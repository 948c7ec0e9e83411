#include "simd/columns.hpp"
#include "simd/kernels_of_isa.hpp"
#include "simd/targets.hpp"
#include "simd/thin.hpp"
#include "simd/tiles.hpp"
#include "tessera/parallel_for.hpp"

// Products of matrices: a is packed row group by row group unless its elements are words as they
// lie, b in blocks of columns that all threads share. Both are cut into slabs of kLanes rows or
// columns, and a slab holds, step by step of the inner dimension, a word of each. Sums run in
// registers over up to kDepth of the inner dimension, and wait in fp32 where there is more of it;
// no bit depends on the other blocks or on threads. The sums over a's rows, which are the gradient
// of a bias, are made of packed groups while the cache holds them.
//
// A prepared b is all of its panels, for each part of the inner dimension: the words that a product
// would have packed, so that the bits are the same.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr i64 kBlockBytes = 4 << 20;     // of packed b: fits the cache that cores share
constexpr i64 kStreamedBytes = 1 << 20;  // of it, that tiles read again and again
// Bytes of packed a that fit a core's cache, with the panels that they meet on tiles.
constexpr i64 kGroupBytes = kOnTiles ? 512 << 10 : 256 << 10;
constexpr i64 kGroupsOfThread = kOnTiles ? 1 : 4;  // at least
constexpr i64 kDepth = 4096;                       // of the inner dimension at once; even

/// True where elements of T are words as they lie.
template <class T>
constexpr bool kHasWords = sizeof(T) * Packed<T>::kDepth == sizeof(typename Packed<T>::Word);

/// How the right factor is cut: `depth` of the inner dimension at a time, and of it panels.
struct Panels {
  i64 n, k, depth, steps, panels, panel_words;
  template <class T>
  void cut(i64 columns, i64 inner) {
    n = columns;
    k = inner;
    depth = at_most(k, kDepth);
    steps = packed_steps<T>(depth);
    panel_words = steps * kPanel;
    panels = (n + kPanel - 1) / kPanel;
  }
  /// Where a panel begins in a prepared factor.
  i64 prepared(i64 part, i64 panel) const { return (part * panels + panel) * panel_words; }
};

/// Packs `count` panels of one part of b, `depth` deep.
template <class T>
void pack_block(
    const Panels& cut, Factor<T> b, i64 depth, i64 first, i64 count, typename Packed<T>::Word* to) {
  const i64 grain = 1 + 16384 / (depth * kLanes + 1);
  parallel_for(count * kPackedVectors, grain, [=](i64 begin, i64 end) {
    const i64 column = first * kPanel + begin * kLanes;
    const i64 columns = at_most(cut.n - column, (end - begin) * kLanes);
    const auto place = [=](i64 slab) {
      slab += begin;
      return to + slab / kPackedVectors * cut.panel_words + slab % kPackedVectors * kLanes;
    };
    pack_panels(b, column, columns, depth, place);
  });
}

/// How a product is cut. Depends on its sizes and on the threads.
struct Cut : Panels {
  i64 m, block_panels, block_words, group_rows, groups, slots, group_words;
  bool own_rows;  ///< rows of a are read where they lie
  template <class T>
  static Cut of(const MatmulArgs& args) {
    Cut c{};
    c.m = args.out.shape[0];
    c.cut<T>(args.out.shape[1], args.a.shape[args.transpose_a ? 0 : 1]);
    const i64 word = static_cast<i64>(sizeof(typename Packed<T>::Word));
    c.own_rows = kHasWords<T> && !args.transpose_a && c.k % Packed<T>::kDepth == 0;
    const i64 fit = kBlockBytes / (c.panel_words * word + 1);
    const i64 blocks = (c.panels + (fit < 1 ? 1 : fit) - 1) / (fit < 1 ? 1 : fit);
    c.block_panels = blocks == 0 ? 0 : (c.panels + blocks - 1) / blocks;
    c.block_words = args.packed ? 0 : c.block_panels * c.panel_words;
    // As many groups for each thread, and no larger than fits.
    const i64 threads = parallel_threads();
    const i64 fit_rows = kGroupBytes / (c.steps * word + 1) + 1;
    const i64 share = (c.m + threads - 1) / threads;
    const i64 least = (share + fit_rows - 1) / fit_rows;
    const i64 each = least > kGroupsOfThread ? least : kGroupsOfThread;
    const i64 rows = (c.m + each * threads - 1) / (each * threads);
    c.group_rows = round_up(rows < 1 ? 1 : rows, kRowUnit);
    c.groups = (c.m + c.group_rows - 1) / c.group_rows;
    c.slots = at_most(c.groups, threads);
    c.group_words = c.own_rows ? 0 : c.steps * c.group_rows;
    return c;
  }
  bool partial() const { return k > depth; }
  i64 words() const { return block_words + slots * group_words + (partial() ? m * n : 0); }
  i64 padded_rows() const { return groups * group_rows; }
};

/// One product while it is computed: `depth` of the inner dimension at a time, and of it one block
/// of columns.
template <class T, class Out>
class Product {
 public:
  using Word = typename Packed<T>::Word;
  /// `row_sums`, if there is one, is added the sums of op(a)'s rows; a must be transposed then.
  Product(const MatmulArgs& args, void* workspace, const TensorArg& row_sums = {})
      : cut_(Cut::of<T>(args)),
        a_(factor_of<T>(args.a, !args.transpose_a)),
        b_(factor_of<T>(args.b, args.transpose_b)),
        to_{args.out.as<Out>(), args.out.strides[0], args.bias.as<const T>(), args.accumulate},
        row_sums_(row_sums),
        prepared_(args.packed.as<const Word>()),
        block_(static_cast<Word*>(workspace)),
        groups_(block_ + cut_.block_words),
        partial_sums_(reinterpret_cast<float*>(static_cast<Word*>(workspace) + cut_.words())) {
    if (cut_.partial())
      to_.partial = reinterpret_cast<float*>(groups_ + cut_.slots * cut_.group_words);
    to_.width = cut_.n;
  }

  void run() {
    i64 done = 0, part = 0;
    do {
      depth_ = at_most(cut_.depth, cut_.k - done);
      steps_ = steps_of<T>(depth_);
      to_.first = done == 0;
      done += depth_;
      to_.last = done == cut_.k;
      for (i64 panel = 0; panel < cut_.panels; panel += cut_.block_panels) {
        const i64 panels = at_most(cut_.block_panels, cut_.panels - panel);
        if (prepared_ == nullptr) pack_block(cut_, b_, depth_, panel, panels, block_);
        multiply_block(
            prepared_ == nullptr ? block_ : prepared_ + cut_.prepared(part, panel), panel, panels);
      }
      ++part;
      a_.data += depth_ * a_.depth_stride;
      b_.data += depth_ * b_.depth_stride;
    } while (done < cut_.k);
  }

 private:
  void multiply_block(const Word* block, i64 first, i64 panels) const {
    parallel_for(cut_.slots, 1, [=, this](i64 begin, i64 end) {
      const TileScope tiles;
      for (i64 slot = begin; slot < end; ++slot) {
        const i64 last = cut_.groups * (slot + 1) / cut_.slots;
        for (i64 group = cut_.groups * slot / cut_.slots; group < last; ++group) {
          const i64 row = group * cut_.group_rows;
          const i64 rows = at_most(cut_.group_rows, cut_.m - row);
          if constexpr (kHasWords<T>) {
            if (cut_.own_rows) {
              const OwnGroup<T> own = {a_.data + row * a_.line_stride, a_.line_stride};
              multiply_group(own, block, first, panels, row, rows);
              continue;
            }
          }
          Word* packed = groups_ + slot * cut_.group_words;
          pack_group(a_, row, rows, depth_, packed);
          if (first == 0 && row_sums_) add_row_sums(packed, row, rows);
          multiply_group(PackedGroup<Word>{packed}, block, first, panels, row, rows);
        }
      }
    });
  }

  void add_row_sums(const Word* packed, i64 row, i64 rows) const {
    for (i64 line = 0; line < rows; line += kLanes) {
      const F before = to_.first ? F{} : load(partial_sums_ + row + line);
      const F total = add_row_totals<T>(before, packed, line, steps_);
      if (to_.last) {
        add_to(row_sums_, row + line, total, at_most(rows - line, kLanes));
      } else {
        store(partial_sums_ + row + line, total);
      }
    }
  }

  template <class Group>
  void multiply_group(
      const Group& group, const Word* block, i64 first, i64 panels, i64 row, i64 rows) const {
    const auto multiply = [&](const auto& to) {
      Results results(to);
      const auto multiply_rows = [&](i64 i, i64 p) {
        const i64 column = (first + p) * kPanel;
        const i64 columns = at_most(cut_.n - column, kPanel);
        const Word* panel = block + p * cut_.panel_words;
        product_of_rows(group, i, rows, panel, steps_, results, row, column, columns);
      };
      if constexpr (kOnTiles) {
        // Panels lie in a row: they stream out of the second cache, past rows in the first one.
        const i64 fit = kStreamedBytes / (cut_.panel_words * static_cast<i64>(sizeof(Word)) + 1);
        const i64 streamed = fit < 1 ? 1 : fit;
        for (i64 begin = 0; begin < panels; begin += streamed) {
          const i64 end = at_most(begin + streamed, panels);
          for (i64 i = 0; i < rows; i += kPackedRows) {
            const i64 next = i + kPackedRows, left = at_most(rows - next, kPackedRows);
            for (i64 p = begin; p < end; ++p) {
              if (left > 0) group.fetch(next, left, steps_, p - begin, end - begin);
              multiply_rows(i, p);
            }
          }
        }
      } else {
        for (i64 p = 0; p < panels; ++p) {
          for (i64 i = 0; i < rows; i += kPackedRows) multiply_rows(i, p);
        }
      }
    };
    if (cut_.partial()) return multiply(Put<Ending::any, T, Out>{to_});
    if (to_.accumulate) return multiply(Put<Ending::accumulate, T, Out>{to_});
    if (to_.bias != nullptr) return multiply(Put<Ending::add_bias, T, Out>{to_});
    multiply(Put<Ending::write, T, Out>{to_});
  }

  const Cut cut_;
  Factor<T> a_, b_;
  Target<T, Out> to_;
  TensorArg row_sums_;
  const Word* prepared_;  // nullptr: b is packed here
  Word *block_, *groups_;
  float* partial_sums_;  // over the inner dimension so far, where it is cut
  i64 depth_ = 0, steps_ = 0;
};

template <class T>
i64 bytes_for(const Cut& cut) {
  return cut.words() * static_cast<i64>(sizeof(typename Packed<T>::Word));
}

/// Calls f with values of the types of the factors and of the result.
template <class Body>
void with_types(const TensorArg& a, const TensorArg& out, Body&& f) {
  const auto with_output = [&](auto data) {
    if (out.dtype == DType::fp32) {
      f(data, float{});
    } else {
      f(data, data);
    }
  };
  with_factors(a.dtype, with_output);
}

template <class T>
Panels panels_of(const PackWeightArgs& args) {
  Panels cut{};
  cut.cut<T>(args.b.shape[args.transpose_b ? 0 : 1], args.b.shape[args.transpose_b ? 1 : 0]);
  return cut;
}

}  // namespace

template <>
i64 workspace_bytes(const MatmulArgs& args) {
  if (has_few_rows(args)) return 0;
  i64 bytes = 0;
  with_types(args.a, args.out, [&]<class T, class Out>(T, Out) {
    bytes = bytes_for<T>(Cut::of<T>(args));
  });
  return bytes;
}

template <>
void run(const MatmulArgs& args, void* workspace) {
  with_types(args.a, args.out, [&]<class T, class Out>(T, Out) {
    if (has_few_rows(args)) return thin_product<T, Out>(args);
    Product<T, Out>(args, workspace).run();
  });
}

// pack_weight packs where its result is: these are the result's bytes.
template <>
i64 workspace_bytes(const PackWeightArgs& args) {
  i64 bytes = 0;
  with_factors(args.b.dtype, [&]<class T>(T) {
    const Panels cut = panels_of<T>(args);
    const i64 parts = cut.depth > 0 ? (cut.k + cut.depth - 1) / cut.depth : 0;
    bytes = cut.prepared(parts, 0) * static_cast<i64>(sizeof(typename Packed<T>::Word));
  });
  return bytes;
}

template <>
void run(const PackWeightArgs& args, void*) {
  with_factors(args.b.dtype, [&]<class T>(T) {
    const Panels cut = panels_of<T>(args);
    Factor<T> b = factor_of<T>(args.b, args.transpose_b);
    for (i64 part = 0; part * cut.depth < cut.k; ++part) {
      const i64 depth = at_most(cut.depth, cut.k - part * cut.depth);
      auto* const to = args.packed.as<typename Packed<T>::Word>() + cut.prepared(part, 0);
      pack_block(cut, b, depth, 0, cut.panels, to);
      b.data += depth * b.depth_stride;
    }
  });
}

template <>
i64 workspace_bytes(const LinearWeightArgs& args) {
  i64 bytes = 0;
  with_types(args.grad, args.weight_grad, [&]<class T, class Out>(T, Out) {
    const Cut cut = Cut::of<T>(args.product());
    const i64 sums = cut.partial() ? cut.padded_rows() : 0;
    bytes = bytes_for<T>(cut) + sums * static_cast<i64>(sizeof(float));
  });
  return bytes;
}

template <>
void run(const LinearWeightArgs& args, void* workspace) {
  with_types(args.grad, args.weight_grad, [&]<class T, class Out>(T, Out) {
    Product<T, Out>(args.product(), workspace, args.bias_grad).run();
  });
}

}  // namespace tessera::cpu::TESSERA_ISA
