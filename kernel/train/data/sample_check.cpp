#include "kernel/train/data/sample_check.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr std::array kSetNames = {"training", "validation", "test"};  // by SampleSet

std::string sample_text(const std::string& component, SampleSet set, i64 ordinal) {
  return fmt::format(
      "{}: sample {} of the {} set", component, ordinal, kSetNames[static_cast<std::size_t>(set)]);
}

// The first value outside of 0 … below - 1.
template <class T>
std::optional<i64> outside(const std::byte* from, i64 count, i64 below) {
  const auto* values = reinterpret_cast<const T*>(from);
  const T* wrong = std::find_if(values, values + count, [&](T value) {
    return static_cast<i64>(value) < 0 || static_cast<i64>(value) >= below;
  });
  return wrong == values + count ? std::nullopt : std::optional(static_cast<i64>(*wrong));
}

std::optional<i64> outside(DType dtype, const std::byte* from, i64 count, i64 below) {
  if (dtype == DType::i64) return outside<i64>(from, count, below);
  return dtype == DType::i32 ? outside<i32>(from, count, below) : outside<u8>(from, count, below);
}

}  // namespace

SampleCheck::SampleCheck(const ModelParts& parts, const DataInputs& from, i64 length) {
  const auto source_of = [&](const auto& is) -> std::optional<Source> {
    const auto found = std::ranges::find_if(from.sources(), is);
    if (found == from.sources().end()) return std::nullopt;
    return Source{static_cast<std::size_t>(found - from.sources().begin()),
                  found->info.name,
                  found->info.dtype,
                  values_of(found->info, {.micro = 1, .sequence = length})};
  };
  for (const ModelParts::Bound& bound : parts.bounds()) {
    const auto source = source_of([&](const auto& of) { return of.info.name == bound.input; });
    if (source) {
      bounds_.push_back({*source, bound.values, bound.component, bound.key});
    } else if (bound.input == "positions" && length > bound.values) {
      fail_config("{}: {}: it knows {} positions, and samples have {} (batch.sequence_length)",
                  bound.component,
                  bound.key,
                  bound.values,
                  length);
    }
  }
  for (const ModelParts::LossInfo& loss : parts.losses()) {
    if (loss.most == 0) continue;
    const auto source = source_of([&](const auto& of) {
      return loss.mask.empty() ? of.info.loss == loss.name : of.info.name == loss.mask;
    });
    if (source) rooms_.push_back({*source, loss.most, loss.component, loss.most_key});
  }
}

void SampleCheck::operator()(SampleSet set, i64 ordinal, std::span<std::byte* const> whole) const {
  for (const Limit& limit : bounds_) {
    const Source& source = limit.source;
    const auto wrong = outside(source.dtype, whole[source.at], source.values, limit.most);
    if (!wrong) continue;
    fail("{} has {} in \"{}\", whose values are 0 to {} ({})",
         sample_text(limit.component, set, ordinal),
         *wrong,
         source.name,
         limit.most - 1,
         limit.key);
  }
  for (const Limit& limit : rooms_) {
    const auto* mask = reinterpret_cast<const u8*>(whole[limit.source.at]);
    const i64 ones = limit.source.values - std::count(mask, mask + limit.source.values, u8{0});
    if (ones <= limit.most) continue;
    fail("{} has {} values of 1 in \"{}\"; {} = {} has room for no more",
         sample_text(limit.component, set, ordinal),
         ones,
         limit.source.name,
         limit.key,
         limit.most);
  }
}

}  // namespace tessera
