#include "kernel/model/later_fields.hpp"

#include <algorithm>
#include <string>

#include "tessera/error.hpp"
#include "tessera/later_input.hpp"

namespace tessera {

namespace {

std::size_t source_of(const LaterInput& input, std::span<const FieldInfo> fields) {
  const auto found = std::ranges::find(fields, input.field, &FieldInfo::name);
  if (found != fields.end()) return static_cast<std::size_t>(found - fields.begin());
  std::vector<std::string> known;
  for (const FieldInfo& field : fields) known.push_back(field.name);
  fail_config(
      "the model reads what the data's field \"{}\" has {} position{} later; the data has {}",
      input.field,
      input.positions,
      input.positions == 1 ? "" : "s",
      known.empty() ? "no fields" : fmt::format("the fields {}", fmt::join(known, ", ")));
}

// The field "first"; -1: the data does not say where documents begin.
int documents_among(std::span<const FieldInfo> fields) {
  const auto found = std::ranges::find(fields, std::string_view("first"), &FieldInfo::name);
  if (found == fields.end()) return -1;
  return static_cast<int>(found - fields.begin());
}

}  // namespace

LaterFields::LaterFields(const ModelParts& parts, std::span<const FieldInfo> fields)
    : fields_(fields.size()) {
  std::vector<std::string> names = parts.slots();
  for (const ModelParts::LossInfo& loss : parts.losses()) {
    if (std::ranges::find(names, loss.mask) == names.end()) names.push_back(loss.mask);
  }
  for (const std::string& name : names) {
    const auto input = parse_later_input(name);
    if (!input) continue;
    const std::size_t source = source_of(*input, fields);
    if (fields[source].length != FieldInfo::kTokens) {
      fail_config(
          "the model reads what the data's field \"{}\" has later in the sample: it has {} values "
          "a sample, not one for each token",
          input->field,
          fields[source].length);
    }
    all_.push_back({{name, fields[source].dtype, ""}, source, input->positions});
  }
  if (!all_.empty()) documents_ = documents_among(fields);
}

void LaterFields::fill(std::span<std::byte* const> values, i64 length) const {
  const auto* first =
      documents_ < 0 ? nullptr
                     : reinterpret_cast<const i32*>(values[static_cast<std::size_t>(documents_)]);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const Field& field = all_[i];
    const i64 size = dtype_size(field.info.dtype),
              there = std::max<i64>(length - field.positions, 0);
    const std::byte* from = values[field.source];
    std::byte* to = values[fields_ + i];
    std::copy_n(from + (length - there) * size, there * size, to);
    std::fill_n(to + there * size, (length - there) * size, std::byte{0});
    if (first == nullptr) continue;
    for (i64 row = 0; row < there; ++row) {
      if (first[row + field.positions] == first[row]) continue;
      std::fill_n(to + row * size, size, std::byte{0});
    }
  }
}

}  // namespace tessera
