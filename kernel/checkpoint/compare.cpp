#include "kernel/checkpoint/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernel/checkpoint/host_floats.hpp"
#include "kernel/checkpoint/stored_reader.hpp"

namespace tessera {

namespace {

std::string loss_scale_text(const std::optional<StoredLossScale>& scale) {
  if (!scale) return "none";
  return fmt::format(
      "{} (clean_steps {}, hysteresis {})", scale->scale, scale->clean_steps, scale->hysteresis);
}

std::string steps_text(const std::vector<i64>& steps) {
  return fmt::format("[{}]", fmt::join(steps, ", "));
}

// Compares all that a run goes on with: equal checkpoints must go on alike.
void compare_counts(const CheckpointInfo& a,
                    const CheckpointInfo& b,
                    double tolerance,
                    CheckpointComparison& out) {
  const auto add = [&](std::string_view name, const auto& left, const auto& right) {
    if (left != right) out.counts.push_back(fmt::format("{}: {} and {}", name, left, right));
  };
  add("step", a.step, b.step);
  add("updates", a.updates, b.updates);
  add("samples", a.samples, b.samples);
  add("seed", a.seed, b.seed);
  add("data", a.data, b.data);
  if (!a.tokenizer.empty() && !b.tokenizer.empty()) add("tokenizer", a.tokenizer, b.tokenizer);
  add("loss_scale", loss_scale_text(a.loss_scale), loss_scale_text(b.loss_scale));
  // The mean is a computed value, so another layout rounds it differently.
  const double magnitude = std::max(std::abs(a.loss_mean), std::abs(b.loss_mean));
  if (std::abs(a.loss_mean - b.loss_mean) > tolerance * magnitude) {
    add("loss_mean", a.loss_mean, b.loss_mean);
  }
  add("loss_count", a.loss_count, b.loss_count);
  add("passed_over", steps_text(a.passed_over), steps_text(b.passed_over));
}

void compare_values(const StoredTensor& a,
                    const std::vector<std::byte>& left,
                    const StoredTensor& b,
                    const std::vector<std::byte>& right,
                    TensorDifference& out) {
  const DType left_dtype = parse_dtype(a.dtype), right_dtype = parse_dtype(b.dtype);
  const i64 size = dtype_size(left_dtype);
  out.elements = static_cast<i64>(left.size()) / size;
  if (left_dtype == right_dtype && left == right) return;
  for (i64 i = 0; i < out.elements; ++i) {
    const std::byte *x = left.data() + i * size, *y = right.data() + i * size;
    const bool one_dtype = left_dtype == right_dtype;
    const double u = value_at(left_dtype, left, i), v = value_at(right_dtype, right, i);
    for (const double value : {std::abs(u), std::abs(v)}) {
      if (std::isfinite(value)) out.magnitude = std::max(out.magnitude, value);
    }
    if (one_dtype && std::memcmp(x, y, static_cast<std::size_t>(size)) == 0) continue;
    if (!one_dtype && u == v) continue;
    ++out.differing;
    const double by = std::abs(u - v);
    out.most = std::isfinite(by) ? std::max(out.most, by) : std::numeric_limits<double>::infinity();
  }
}

std::string form_of(const StoredTensor& tensor) {
  return fmt::format("{} [{}]", tensor.dtype, fmt::join(tensor.shape, ", "));
}

}  // namespace

const TensorDifference* CheckpointComparison::largest() const {
  const TensorDifference* found = nullptr;
  for (const auto* list : {&differing, &within}) {
    for (const TensorDifference& tensor : *list) {
      if (!tensor.shapes.empty()) continue;
      if (found == nullptr || tensor.most > found->most) found = &tensor;
    }
  }
  return found;
}

CheckpointComparison compare_checkpoints(const std::filesystem::path& a,
                                         const std::filesystem::path& b,
                                         double tolerance) {
  const CheckpointIndex left = read_index(a), right = read_index(b);
  StoredReader left_reader(a, left), right_reader(b, right);
  Damage left_damage, right_damage;
  CheckpointComparison out;
  compare_counts(left.info, right.info, tolerance, out);
  for (const auto& [name, tensor] : left.tensors) {
    const auto found = right.tensors.find(name);
    if (found == right.tensors.end()) {
      out.missing.push_back(name);
      continue;
    }
    TensorDifference difference{name, {}};
    const StoredTensor &mine = tensor, &theirs = found->second;
    if (mine.shape != theirs.shape) {
      difference.shapes = fmt::format("{} and {}", form_of(mine), form_of(theirs));
    } else {
      left_damage.collect(name, [&] {
        const auto values = left_reader.read(mine);
        right_damage.collect(name, [&] {
          compare_values(mine, values, theirs, right_reader.read(theirs), difference);
        });
      });
    }
    if (difference.shapes.empty() && difference.differing == 0) {
      ++out.equal;
    } else if (difference.shapes.empty() && tolerance > 0 &&
               difference.most <= tolerance * difference.magnitude) {
      out.within.push_back(std::move(difference));
    } else {
      out.differing.push_back(std::move(difference));
    }
  }
  for (const auto& [name, tensor] : right.tensors) {
    if (!left.tensors.contains(name)) out.extra.push_back(name);
  }
  left_damage.require_none(a);
  right_damage.require_none(b);
  return out;
}

}  // namespace tessera
