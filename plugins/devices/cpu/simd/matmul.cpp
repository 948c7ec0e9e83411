#include "simd/columns.hpp"
#include "simd/kernels_of_isa.hpp"
#include "simd/targets.hpp"
#include "simd/thin.hpp"
#include "simd/tiles.hpp"
#include "tessera/parallel_for.hpp"

// Products of matrices: a is packed row group by row group unless its elements are
// words as they lie, b in blocks of columns that all threads share. Both are cut into slabs of
// kLanes rows or columns, and a slab holds, step by step of the inner dimension, a word of each.
// Sums run in registers over up to kDepth of the inner dimension, and wait in fp32 where there is
// more of it; no bit depends on the other blocks or on threads. The sums over a's rows, which are
// the gradient of a bias, are made of packed groups while the cache holds them.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr i64 kBlockBytes = 4 << 20;    // of packed b: fits the cache that cores share
constexpr i64 kGroupBytes = 256 << 10;  // of packed a: fits a core's cache
constexpr i64 kDepth = 4096;            // of the inner dimension at once; even

/// True where elements of T are words as they lie.
template <class T>
constexpr bool kHasWords = sizeof(T) * Packed<T>::kDepth == sizeof(typename Packed<T>::Word);

/// How a product is cut. Depends on its sizes and on the threads.
struct Cut {
  i64 m, n, k, depth, steps, panels, block_panels, group_rows, groups, slots;
  i64 panel_words, group_words;
  bool own_rows;  ///< rows of a are read where they lie
  template <class T>
  static Cut of(const MatmulArgs& args) {
    Cut c{};
    c.m = args.out.shape[0];
    c.n = args.out.shape[1];
    c.k = args.a.shape[args.transpose_a ? 0 : 1];
    c.depth = at_most(c.k, kDepth);
    c.steps = packed_steps<T>(c.depth);
    const i64 word = static_cast<i64>(sizeof(typename Packed<T>::Word));
    c.panel_words = c.steps * kPanel;
    c.panels = (c.n + kPanel - 1) / kPanel;
    const i64 fit = kBlockBytes / (c.panel_words * word + 1);
    const i64 blocks = (c.panels + (fit < 1 ? 1 : fit) - 1) / (fit < 1 ? 1 : fit);
    c.block_panels = blocks == 0 ? 0 : (c.panels + blocks - 1) / blocks;
    // Groups small enough that every thread gets four, if there are so many rows.
    const i64 threads = parallel_threads();
    const i64 rows = at_most(kGroupBytes / (c.steps * word + 1), c.m / (4 * threads));
    c.group_rows = round_up(rows < 1 ? 1 : rows, kRowUnit);
    c.groups = (c.m + c.group_rows - 1) / c.group_rows;
    c.slots = at_most(c.groups, threads);
    c.own_rows = kHasWords<T> && !args.transpose_a && c.k % Packed<T>::kDepth == 0;
    c.group_words = c.own_rows ? 0 : c.steps * c.group_rows;
    return c;
  }
  bool partial() const { return k > depth; }
  i64 words() const {
    return block_panels * panel_words + slots * group_words + (partial() ? m * n : 0);
  }
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
        block_(static_cast<Word*>(workspace)),
        groups_(block_ + cut_.block_panels * cut_.panel_words),
        partial_sums_(reinterpret_cast<float*>(static_cast<Word*>(workspace) + cut_.words())) {
    if (cut_.partial())
      to_.partial = reinterpret_cast<float*>(groups_ + cut_.slots * cut_.group_words);
    to_.width = cut_.n;
  }

  void run() {
    i64 done = 0;
    do {
      depth_ = at_most(cut_.depth, cut_.k - done);
      steps_ = steps_of<T>(depth_);
      to_.first = done == 0;
      done += depth_;
      to_.last = done == cut_.k;
      for (i64 panel = 0; panel < cut_.panels; panel += cut_.block_panels) {
        const i64 panels = at_most(cut_.block_panels, cut_.panels - panel);
        pack_block(panel, panels);
        multiply_block(panel, panels);
      }
      a_.data += depth_ * a_.depth_stride;
      b_.data += depth_ * b_.depth_stride;
    } while (done < cut_.k);
  }

 private:
  void pack_block(i64 first, i64 panels) const {
    const i64 grain = 1 + 16384 / (depth_ * kLanes + 1);
    parallel_for(panels * kPackedVectors, grain, [=, this](i64 begin, i64 end) {
      const i64 column = first * kPanel + begin * kLanes;
      const i64 columns = at_most(cut_.n - column, (end - begin) * kLanes);
      const auto place = [=, this](i64 slab) {
        slab += begin;
        return block_ + slab / kPackedVectors * cut_.panel_words + slab % kPackedVectors * kLanes;
      };
      pack_panels(b_, column, columns, depth_, place);
    });
  }

  void multiply_block(i64 first, i64 panels) const {
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
              multiply_group(own, first, panels, row, rows);
              continue;
            }
          }
          Word* packed = groups_ + slot * cut_.group_words;
          pack_group(a_, row, rows, depth_, packed);
          if (first == 0 && row_sums_) add_row_sums(packed, row, rows);
          multiply_group(PackedGroup<Word>{packed}, first, panels, row, rows);
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
  void multiply_group(const Group& group, i64 first, i64 panels, i64 row, i64 rows) const {
    const auto multiply = [&](const auto& to) {
      for (i64 p = 0; p < panels; ++p) {
        const i64 column = (first + p) * kPanel;
        const i64 columns = at_most(cut_.n - column, kPanel);
        const Word* panel = block_ + p * cut_.panel_words;
        product_of_panel(group, panel, steps_, to, row, rows, column, columns);
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
  if constexpr (kOnTiles) {
    with_output(Bf16{});
  } else {
    with_storage(a.dtype, with_output);
  }
}

MatmulArgs product_of(const LinearWeightArgs& args) {
  return {args.grad, args.x, {}, args.weight_grad, true, false, true};
}

}  // namespace

template <>
i64 workspace_bytes(const MatmulArgs& args) {
  if (is_thin(args)) return 0;
  i64 bytes = 0;
  with_types(args.a, args.out, [&]<class T, class Out>(T, Out) {
    bytes = bytes_for<T>(Cut::of<T>(args));
  });
  return bytes;
}

template <>
void run(const MatmulArgs& args, void* workspace) {
  with_types(args.a, args.out, [&]<class T, class Out>(T, Out) {
    if (is_thin(args)) return thin_product<T, Out>(args);
    Product<T, Out>(args, workspace).run();
  });
}

template <>
i64 workspace_bytes(const LinearWeightArgs& args) {
  i64 bytes = 0;
  with_types(args.grad, args.weight_grad, [&]<class T, class Out>(T, Out) {
    const Cut cut = Cut::of<T>(product_of(args));
    const i64 sums = cut.partial() ? cut.padded_rows() : 0;
    bytes = bytes_for<T>(cut) + sums * static_cast<i64>(sizeof(float));
  });
  return bytes;
}

template <>
void run(const LinearWeightArgs& args, void* workspace) {
  with_types(args.grad, args.weight_grad, [&]<class T, class Out>(T, Out) {
    Product<T, Out>(product_of(args), workspace, args.bias_grad).run();
  });
}

}  // namespace tessera::cpu::TESSERA_ISA
