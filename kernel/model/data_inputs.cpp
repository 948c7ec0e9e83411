#include "kernel/model/data_inputs.hpp"

#include <algorithm>
#include <string_view>

#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr std::string_view kRowIds = "row_ids", kPositions = "positions", kScored = "scored_rows";

void require_dtype(const FieldInfo& info, DType dtype, std::string_view what) {
  if (info.dtype == dtype) return;
  fail_config("the data's field \"{}\" is {}: {} is {}",
              info.name,
              dtype_name(info.dtype),
              what,
              dtype_name(dtype));
}

void check(const FieldInfo& info) {
  if (info.name == kRowIds) {
    fail_config("the dataset has a field \"{}\", which every sample has of its own", info.name);
  }
  if (info.name == kScored) {
    fail_config("the dataset has a field \"{}\", which evaluations have of their own", info.name);
  }
  if (info.dtype != DType::i64 && info.dtype != DType::i32 && info.dtype != DType::u8) {
    fail_config("the data's field \"{}\" is {}: fields are i64, i32 or u8",
                info.name,
                dtype_name(info.dtype));
  }
  if (info.length < 0) {
    fail_config("the data's field \"{}\" has {} values a sample", info.name, info.length);
  }
  const bool place = info.name == "first" || info.name == "last";
  if (info.name == kPositions) require_dtype(info, DType::i64, "a token's position");
  if (info.name == "first") require_dtype(info, DType::i32, "where a row's document begins");
  if (info.name == "last") require_dtype(info, DType::i32, "the last place that a row sees");
  if ((place || info.name == kPositions) && info.length != FieldInfo::kTokens) {
    fail_config("the data's field \"{}\" has {} values a sample: it has one for each token",
                info.name,
                info.length);
  }
}

}  // namespace

DataInputs::DataInputs(const ModelParts& parts, const std::vector<FieldInfo>& fields, bool all)
    : fields_(fields.size()), later_(parts, fields) {
  for (const FieldInfo& info : fields) check(info);
  const auto read = [&](const FieldInfo& info) {
    if (all || std::ranges::find(parts.slots(), info.name) != parts.slots().end()) return true;
    return std::ranges::any_of(parts.losses(), [&](const ModelParts::LossInfo& loss) {
      if (loss.weight != LossWeight::field) return false;
      return loss.mask.empty() ? info.loss == loss.name : info.name == loss.mask;
    });
  };
  const auto add = [&](const FieldInfo& info) {
    inputs_.push_back(info);
    return static_cast<int>(inputs_.size()) - 1;
  };
  for (const FieldInfo& info : fields) sources_.push_back({info, read(info) ? add(info) : -1});
  for (const LaterFields::Field& later : later_.all()) {
    sources_.push_back({later.info, add(later.info)});
  }
  row_ids_ = add({.name = std::string(kRowIds), .dtype = DType::i64});
  if (std::ranges::find(fields, kPositions, &FieldInfo::name) == fields.end()) {
    positions_ = add({.name = std::string(kPositions), .dtype = DType::i64});
  }
}

bool DataInputs::any_field() const {
  return std::ranges::any_of(sources_, [](const Source& source) { return source.input >= 0; });
}

i64 values_of(const FieldInfo& info, const BatchShape& shape) {
  return info.length == FieldInfo::kTokens ? shape.rows() : shape.micro * info.length;
}

}  // namespace tessera
