#include "tessera/ops/rotary.hpp"

#include <limits>

#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

/// Cosines and sines of a position; those outside of the table are NaN.
class Angles {
 public:
  explicit Angles(const TensorArg& table) : table_(table) {}
  i64 pairs() const { return table_.shape[2]; }
  double of(i64 position, int part, i64 pair) const {
    if (position < 0 || position >= table_.shape[0]) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    const i64 at = (2 * position + part) * pairs() + pair;
    return table_.dtype == DType::fp64 ? table_.as<const double>()[at]
                                       : static_cast<double>(table_.as<const float>()[at]);
  }

 private:
  const TensorArg& table_;
};

template <class T>
void turn(const RotaryArgs& args) {
  const Angles angles(args.table);
  const i64 pairs = angles.pairs(), features = args.x.shape[2];
  const i64* positions = args.positions.as<const i64>();
  const auto head = [](const TensorArg& tensor, i64 row, i64 h) {
    return tensor.as<T>() + row * tensor.strides[0] + h * tensor.strides[1];
  };
  parallel_for(args.x.shape[0], 8, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      for (i64 h = 0; h < args.x.shape[1]; ++h) {
        const T* from = head(args.x, row, h);
        T* to = head(args.out, row, h);
        for (i64 pair = 0; pair < pairs; ++pair) {
          const i64 first = args.interleaved ? 2 * pair : pair;
          const i64 second = args.interleaved ? first + 1 : pair + pairs;
          const double a = static_cast<double>(from[first]), b = static_cast<double>(from[second]);
          const double cosine = angles.of(positions[row], 0, pair);
          const double sine = angles.of(positions[row], 1, pair) * (args.inverse ? -1 : 1);
          to[first] = static_cast<T>(a * cosine - b * sine);
          to[second] = static_cast<T>(b * cosine + a * sine);
        }
        for (i64 j = 2 * pairs; j < features; ++j) to[j] = from[j];
      }
    }
  });
}

}  // namespace

template <>
void run(const RotaryArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) { turn<T>(args); });
}

}  // namespace tessera::reference
