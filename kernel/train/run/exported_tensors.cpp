#include "kernel/train/run/exported_tensors.hpp"

#include <fmt/format.h>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

ExportedTensors::ExportedTensors(const std::filesystem::path& from,
                                 const CheckpointIndex& index,
                                 const NamedConverter& by,
                                 const Settings& theirs)
    : reader_(from, index) {
  std::map<std::string, const StoredTensor*> left;  // parameters
  for (const auto& [name, tensor] : index.tensors) {
    if (name.find('/') == std::string::npos) left[name] = &tensor;
  }
  const std::vector<ConvertedTensor> tensors = by.converter->tensors(theirs);
  std::map<std::string, std::vector<ConvertedTensor>> tiles;  // by our name
  for (const ConvertedTensor& tensor : tensors) tiles[tensor.ours].push_back(tensor);
  for (const ConvertedTensor& first : tensors) {
    const auto of_parameter = tiles.extract(first.ours);
    if (of_parameter.empty()) continue;  // those of a parameter are taken together
    const auto found = left.find(first.ours);
    if (found == left.end() && first.optional) {
      lacking_.push_back(first.ours);
      continue;
    }
    if (found == left.end()) {
      fail_config("{} has no parameter \"{}\"", from.string(), first.ours);
    }
    const StoredTensor& stored = *found->second;
    shapes_[first.ours] = stored.shape;
    for (Tile& tile : lay_out(of_parameter.mapped(), stored.shape)) {
      entries_.push_back({tile.tensor.theirs, stored.dtype, tile.their_shape()});
      tiles_.push_back(std::move(tile));
      stored_.push_back(&stored);
    }
    left.erase(found);
  }
  if (left.empty()) return;
  fail_config("{} has {}, which converter \"{}\" does not know",
              from.string(),
              quote(left.begin()->first),
              by.name);
}

DType ExportedTensors::dtype_without(const std::set<std::string>& buffers) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!buffers.contains(tiles_[i].tensor.ours)) return parse_dtype(entries_[i].dtype);
  }
  fail("a model without parameters");
}

void ExportedTensors::round(DType dtype, const std::set<std::string>& buffers) {
  rounded_.emplace(dtype);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!buffers.contains(tiles_[i].tensor.ours)) entries_[i].dtype = dtype_name(dtype);
  }
}

void ExportedTensors::write(std::size_t i, const ByteSink& sink) {
  if (read_ != stored_[i]) {
    read_ = nullptr;
    values_ = reader_.read(*stored_[i]);
    if (entries_[i].dtype != stored_[i]->dtype) {
      values_ = (*rounded_)(tiles_[i].tensor.ours, values_, parse_dtype(stored_[i]->dtype));
    }
    read_ = stored_[i];
  }
  sink(cut(tiles_[i], values_, dtype_size(parse_dtype(entries_[i].dtype))));
}

}  // namespace tessera
