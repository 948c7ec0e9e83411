#include "kernel/checkpoint/export.hpp"

#include <system_error>
#include <vector>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/host_floats.hpp"
#include "kernel/checkpoint/safetensors_file.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

bool floating(DType dtype) {
  return dtype == DType::fp64 || dtype == DType::fp32 || dtype == DType::fp16 ||
         dtype == DType::bf16;
}

[[noreturn]] void fail_there(const fs::path& file) {
  fail_config("{} is there already", file.string());
}

}  // namespace

Exported export_parameters(const fs::path& folder,
                           const fs::path& file,
                           std::optional<DType> dtype) {
  if (fs::exists(fs::symlink_status(file))) fail_there(file);
  const CheckpointIndex index = read_index(folder);
  std::vector<const StoredTensor*> tensors;
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : index.tensors) {
    if (name.find('/') != std::string::npos) continue;  // the optimizer's state
    const DType stored = parse_dtype(tensor.dtype);
    const DType written = dtype && floating(stored) ? *dtype : stored;
    tensors.push_back(&tensor);
    entries.push_back({name, std::string(dtype_name(written)), tensor.shape});
  }
  Exported exported{static_cast<i64>(tensors.size()), 0};
  const fs::path temporary = file.string() + ".tessera.tmp";
  try {
    StoredReader reader(folder, index);
    // Readers of the format ask for this name: the tensors are laid out as PyTorch has them.
    SafetensorsWriter out(temporary, entries, {{"format", "pt"}});
    Damage damage;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::vector<std::byte> values;
      damage.collect(entries[i].key, [&] { values = reader.read(*tensors[i]); });
      damage.require_none(folder);
      const DType from = parse_dtype(tensors[i]->dtype), to = parse_dtype(entries[i].dtype);
      out.next(
          [&](const ByteSink& sink) { sink(from == to ? values : converted(values, from, to)); });
    }
    exported.bytes = out.finish();
    if (!rename_new(temporary, file)) fail_there(file);
    sync_folder(fs::absolute(file).parent_path());
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  return exported;
}

}  // namespace tessera
