#include "kernel/checkpoint/stored_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernel/checkpoint/disk.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr i64 kListed = 20;

}  // namespace

StoredReader::StoredReader(std::filesystem::path folder, const CheckpointIndex& index)
    : folder_(std::move(folder)), index_(index) {}

const SafetensorsFile& StoredReader::file(const std::string& name) {
  std::unique_ptr<SafetensorsFile>& file = files_[name];
  if (file != nullptr) return *file;
  auto opened = std::make_unique<SafetensorsFile>(folder_ / name);
  const i64 expected = index_.bytes_of(name).value_or(0);
  require(opened->size() == expected,
          "{} is damaged: it has {} bytes instead of {}",
          (folder_ / name).string(),
          opened->size(),
          expected);
  file = std::move(opened);
  return *file;
}

std::vector<std::byte> StoredReader::read(const std::string& tensor,
                                          const std::string& dtype,
                                          const StoredSlice& slice) {
  try {
    const SafetensorsFile& in = file(slice.file);
    const SafetensorsEntry& entry = in.entry(slice.key);
    const std::string path = (folder_ / slice.file).string();
    require(entry.dtype == dtype && entry.shape == slice.where.shape,
            "{} is damaged: its header says {} [{}]",
            path,
            entry.dtype,
            fmt::join(entry.shape, ", "));
    std::vector<std::byte> bytes = in.read(entry);
    require(
        static_cast<i64>(bytes.size()) == slice.where.elements() * dtype_size(parse_dtype(dtype)),
        "{} is damaged: {} bytes are not {} {}",
        path,
        bytes.size(),
        dtype,
        slice.where.text());
    require(checksum(bytes) == slice.checksum, "{} is damaged: the checksum is wrong", path);
    return bytes;
  } catch (const Error& error) {
    throw Error(fmt::format("tensor \"{}\": {}", tensor, error.what()), error.exit_code());
  }
}

bool Damage::survives(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    if (++count_ <= kListed) lines_.emplace_back(error.what());
    return false;
  }
}

std::string Damage::text() const {
  std::string text = fmt::format("  {}", fmt::join(lines_, "\n  "));
  if (count_ > kListed) text += fmt::format("\n  and {} more", count_ - kListed);
  return text;
}

std::string name_list(const std::vector<std::string>& names) {
  const auto shown = std::min<std::size_t>(names.size(), kListed);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

CheckpointIndex verify_checkpoint(const std::filesystem::path& folder) {
  CheckpointIndex index = read_index(folder);
  StoredReader reader(folder, index);
  Damage damage;
  for (const auto& [name, tensor] : index.tensors) {
    for (const StoredSlice& slice : tensor.slices) {
      damage.survives(
          [&, &name = name, &tensor = tensor] { reader.read(name, tensor.dtype, slice); });
    }
  }
  require(damage.none(), "checkpoint {} is damaged:\n{}", folder.string(), damage.text());
  return index;
}

}  // namespace tessera
