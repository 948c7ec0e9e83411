// What is fed: whatever reads bytes that another program, host or person wrote.
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "fuzz/fuzz.hpp"
#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/safetensors_file.hpp"
#include "kernel/comm/store_wire.hpp"
#include "kernel/config/toml.hpp"
#include "kernel/data/byte_source.hpp"
#include "kernel/data/json_document.hpp"
#include "kernel/data/text_check.hpp"
#include "kernel/model/layout_string.hpp"
#include "kernel/plugin/library_file.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/token_index.hpp"

namespace tessera::fuzz {

namespace {

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// A file in memory with these bytes, for readers that want a path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "fuzz: no file in memory");
  }
  std::string with(const std::string& bytes) const {
    require(ftruncate(descriptor_, 0) == 0 && pwrite(descriptor_, bytes.data(), bytes.size(), 0) ==
                                                  static_cast<ssize_t>(bytes.size()),
            "fuzz: cannot write a file in memory");
    return fmt::format("/proc/self/fd/{}", descriptor_);
  }

 private:
  int descriptor_;
};

// --- safetensors ---

std::string safetensors_seed(const std::string& header, std::size_t data) {
  return bytes_of(static_cast<u64>(header.size())) + header + std::string(data, 'x');
}

void read_safetensors(const std::string& input) {
  static const MemoryFile memory;
  const SafetensorsFile file(memory.with(input));
  for (const SafetensorsEntry& entry : file.entries()) {
    const std::vector<std::byte> data = file.read(entry);
    if (data.size() > input.size()) finding("a tensor is larger than its file");
  }
  // What was read can be written, and reads back the same.
  const std::string header = safetensors_header(file.entries());
  if (parse_safetensors_header(header, "again").size() != file.entries().size()) {
    finding("a header changes when it is written");
  }
}

Target safetensors() {
  const std::string two =
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"__metadata__":{"x":"y"}})";
  return {
      "safetensors",
      {safetensors_seed(two, 32), safetensors_seed("{}", 0)},
      {"\"dtype\":", "\"shape\":", "\"data_offsets\":", "\"I64\"", "[0,", "[", "{", "\"a\"", ","},
      read_safetensors,
      {safetensors_seed("{\"a\":" + nested("[", "]", 100'000) + "}", 0),
       safetensors_seed(
           R"({"a":{"dtype":"F32","shape":[500000000],"data_offsets":[0,2000000000]}})", 8)}};
}

// --- the index of a checkpoint ---

// Its own checksum would refuse whatever was mutated, so it is made right first.
void read_index_text(const std::string& input) {
  std::string text = input;
  try {
    auto json = parse_json<nlohmann::json>(input, "input");
    if (json.is_object()) {
      json.erase("checksum");
      json["checksum"] = fmt::format("{:016x}", hash64(json.dump(1)));
      text = json.dump(1);
    }
  } catch (const Error&) {  // too deep, or no JSON: stays as it is
  }
  const CheckpointIndex index = CheckpointIndex::from_json(text, "index.json");
  index.check_tiling();
  if (index.total_bytes() < 0) finding("a checkpoint of a negative size");
  const CheckpointIndex again = CheckpointIndex::from_json(index.to_json(), "again");
  if (again.tensors.size() != index.tensors.size()) finding("an index changes when it is written");
}

Target index() {
  CheckpointIndex made;
  made.info = {
      .step = 3, .updates = 2, .samples = 24, .seed = 7, .data = "text", .config = "a = 1"};
  made.info.loss_scale = {1024, 5, 2};
  made.info.passed_over = {2};
  made.files = {{"rank-00000.safetensors", 96}, {"rank-00001.safetensors", 96}};
  made.tensors["w"] = {"fp32",
                       {4, 6},
                       {{"rank-00000.safetensors", "w.0", {{0, 0}, {2, 6}}, {1, 4}, 1},
                        {"rank-00001.safetensors", "w.1", {{2, 0}, {2, 6}}, {2}}}};
  made.tensors["w/first_moment"] = {
      "bf16", {4}, {{"rank-00000.safetensors", "m", {{0}, {4}}, {3}}}};
  return {
      "index",
      {made.to_json()},
      {"\"shape\":", "\"begin\":", "\"slices\":", "[0, 0]", "{", "}", "[", "]", "\"fp32\"", "null"},
      read_index_text,
      {"{\"format\":" + nested("[", "]", 100'000) + "}",
       "{\"format\":" + nested("{\"a\":", "}", 100'000) + "}"}};
}

// --- a model of Hugging Face transformers ---

constexpr std::string_view kNextFile = "\n==\n";  // between the two files of an input

// A folder in memory with two sound files of tensors; config.json and the index are the input.
class ModelFolder {
 public:
  ModelFolder() {
    std::string name = "/dev/shm/fuzz-model-XXXXXX";
    require(mkdtemp(name.data()) != nullptr, "fuzz: no folder in memory");
    folder_ = name;
    put("a.safetensors", safetensors_seed(kFirst, 24));
    put("b.safetensors", safetensors_seed(kSecond, 8));
  }
  ~ModelFolder() { std::filesystem::remove_all(folder_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  void put(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << text;
  }
  const std::filesystem::path& path() const { return folder_; }

 private:
  static constexpr const char *kFirst =
                                  R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
                              *kSecond =
                                  R"({"b":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})";
  std::filesystem::path folder_;
};

void read_foreign_model(const std::string& input) {
  static const ModelFolder folder;
  const std::size_t end = std::min(input.find(kNextFile), input.size());
  folder.put("config.json", input.substr(0, end));
  folder.put("model.safetensors.index.json",
             input.substr(std::min(end + kNextFile.size(), input.size())));
  const ForeignModel model(folder.path());
  // What converters are told: a text of each value has to be TOML, and the same value again.
  const Origin where{.kind = Origin::set, .layer = 0, .name = "--set #1"};
  for (const auto& [key, value] : model.settings()) {
    const auto again = parse_toml_value(value.text(), where);
    if (!again || again->size() != 1 || (*again)[0].value != value) {
      finding("a setting is no TOML: " + value.text());
    }
  }
  for (const std::string& name : model.names()) {
    if (model.has(name) && model.read(name).size() > 24)
      finding("a tensor is larger than its file");
  }
}

Target foreign_model() {
  const std::string config =
      R"({"model_type":"gpt2","n_layer":2,"layer_norm_epsilon":1e-05,"tie":true,"s":null,)"
      R"("architectures":["GPT2LMHeadModel"],"task":{"text":{"max_length":50}}})";
  const std::string map =
      R"({"metadata":{"total_size":32},"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})";
  return {"foreign",
          {config + std::string(kNextFile) + map},
          {"{",
           "}",
           "[",
           "]",
           "\"a\":",
           "\"b.safetensors\"",
           "\"weight_map\":",
           "\"../a\"",
           "null",
           "[[[[",
           "18446744073709551615",
           "1e400",
           "\\u0000"},
          read_foreign_model,
          {"{\"a\":" + nested("[", "]", 100'000) + "}" + std::string(kNextFile) + map}};
}

// --- TOML ---

void read_toml_value(const std::string& input) {
  const Origin where{.kind = Origin::set, .layer = 0, .name = "--set #1"};
  const auto items = parse_toml_value(input, where);
  if (!items) return;
  for (const TomlItem& item : *items) {
    if (!item.value) continue;
    // Printed and read again, it is the same value.
    const auto again = parse_toml_value(item.value->text(), where);
    if (!again || again->size() != 1 || !(*again)[0].value ||
        (*again)[0].value->text() != item.value->text()) {
      finding("a value changes when it is printed: " + item.value->text());
    }
  }
}

Target toml_value() {
  return {
      "toml-value",
      {"1e-3", "\"adamw\"", "[1, 2.5, -3]", "true", "{ a = 1, b = { c = \"x\" } }", "0x1F", "inf"},
      {"[", "]", "{", "}", " = ", "\"", "'''", "\"\"\"", "\\u00e9", "\\", "1979-05-27", "_", "#"},
      read_toml_value,
      {"{" + nested("a.", "", 100'000) + " = 1}", nested("[", "]", 100'000)}};
}

Target toml_file() {
  return {
      "toml-file",
      {"schema = 1\n[run]\nname = \"x\" # why\nsteps = 10\n[model.block.mlp]\ntype = \"moe\"\n",
       "a.b = [1,\n 2]\n[c]\nd = { e = '''f\ng''' }\n"},
      {"[", "]", "[[", "]]", "{", "}", " = ", ".", "\"", "'''", "\"\"\"", "\n", "\r\n", "#", "\\"},
      [](const std::string& input) {
        parse_toml(input, {.kind = Origin::file, .layer = 0, .name = "a.toml"});
      },
      {"[a" + nested(".a", "", 100'000) + "]",
       "x = [\"\"\"\n'\"\"\"', {" + nested("a.", "", 100'000) + " = 1}]",
       "x = " + nested("{" + nested("a.", "", 255) + " = ", "}", 250)}};
}

// --- pipeline layouts ---

Target layout() {
  return {"layout",
          {"Et*2|(t|)*2,tL", "E t*3 | t*4 L", "E|t|t|L", "((t*2|)*2t)*3L"},
          {"E", "t", "L", "|", "(", ")", "*", "*0", "*99999", ",", " "},
          [](const std::string& input) {
            std::size_t letters = 0;
            for (const std::string& stage : parse_layout(input)) letters += stage.size();
            if (letters > 1'000'000) finding("a layout of " + std::to_string(letters) + " layers");
          }};
}

// --- the rendezvous ---

// What a server does with a connection's bytes: in one piece, and in two.
void read_frames(const std::string& input) {
  const auto taken = [](const std::vector<std::string>& pieces) {
    std::string buffer, all;
    for (const std::string& piece : pieces) {
      buffer += piece;
      WireMessage message;
      while (take_frame(buffer, kStrangerBytes, message)) all += message.frame();
    }
    return all;
  };
  const auto or_error = [&](const std::vector<std::string>& pieces) {
    try {
      return taken(pieces);
    } catch (const Error&) {
      return std::string("error");
    }
  };
  const std::size_t middle = input.size() / 2;
  const std::string whole = or_error({input});
  if (whole != or_error({input.substr(0, middle), input.substr(middle)})) {
    finding("the same bytes in two pieces are other messages");
  }
  if (whole == "error") fail("refused");
}

Target wire() {
  const WireMessage hello{
      .code = 0, .number = 1, .world = 4, .key = std::string(32, 'n'), .value = "primary"};
  const WireMessage proof{.code = 1, .number = 0, .world = 0, .key = std::string(32, 'p')};
  const WireMessage get{.code = 3, .number = 1000, .world = 0, .key = "key"};
  return {
      "wire", {hello.frame() + proof.frame(), get.frame(), hello.frame()}, {"TSS3"}, read_frames};
}

// --- the header of a plugin's file ---

// The least that is a shared library with one symbol and the text of its build.
std::string library_seed() {
  const std::string names = std::string("\0tessera_plugin\0", 16);
  const std::string fields = std::string("sdk headers=91c2;compiler=gcc\0", 31);
  Elf64_Sym symbol{};
  symbol.st_name = 1;
  symbol.st_shndx = 1;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
#if defined(__aarch64__)
  header.e_machine = EM_AARCH64;
#else
  header.e_machine = EM_X86_64;
#endif
  header.e_phoff = sizeof header;
  header.e_phnum = 1;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shoff = header.e_phoff + sizeof(Elf64_Phdr);
  header.e_shnum = 3;
  header.e_shentsize = sizeof(Elf64_Shdr);
  const u64 data = header.e_shoff + 3 * sizeof(Elf64_Shdr);
  Elf64_Phdr segment{};
  segment.p_filesz = data;
  Elf64_Shdr none{}, symbols{}, strings{};
  symbols.sh_type = SHT_DYNSYM;
  symbols.sh_link = 2;
  symbols.sh_offset = data;
  symbols.sh_size = sizeof symbol;
  strings.sh_type = SHT_STRTAB;
  strings.sh_offset = data + sizeof symbol;
  strings.sh_size = names.size();
  return bytes_of(header) + bytes_of(segment) + bytes_of(none) + bytes_of(symbols) +
         bytes_of(strings) + bytes_of(symbol) + names + fields;
}

Target library() {
  return {"library",
          {library_seed()},
          {"sdk headers=",
           "\x7f"
           "ELF"},
          [](const std::string& input) {
            static const MemoryFile memory;
            const LibraryFile file = read_library_file(memory.with(input));
            for (const std::string& symbol : file.symbols) {
              if (symbol.size() > input.size()) finding("a symbol is longer than its file");
            }
          }};
}

// --- the index of a token file ---

std::string token_index_seed(bool modes) {
  const std::string head("MMIDIDX\0\0", 9);
  std::string bytes = head + bytes_of(u64{1}) + '\x08' + bytes_of(u64{3}) + bytes_of(u64{3});
  for (const i32 length : {3, 1, 3}) bytes += bytes_of(length);
  for (const i64 place : {0, 6, 8}) bytes += bytes_of(place);
  for (const i64 document : {0, 1, 3}) bytes += bytes_of(document);
  return bytes + (modes ? "\x01\x02\x03" : "");
}

void read_token_index(const std::string& input) {
  const TokenIndex index(input, "input");
  i64 tokens = 0;
  for (i64 i = 0; i < index.sequences(); ++i) {
    if (index.begin(i) != tokens) finding("a sequence begins elsewhere");
    tokens += index.length(i);
    if (index.mode(i).has_value() != index.has_modes()) finding("a sequence has no mode");
  }
  if (tokens != index.tokens() || index.data_bytes() < tokens)
    finding("tokens that no sequence has");
  for (i64 i = 0; i < index.documents(); ++i) {
    const i64 begin = index.document_begin(i), end = index.document_begin(i + 1);
    if (begin > end || end > tokens) finding("a document ends before it begins");
    if (begin < end && index.document_at(begin) != i) finding("a token is of two documents");
    if (begin < end && index.document_at(end - 1) != i) finding("a document has no last token");
  }
}

Target token_index() {
  return {"token_index",
          {token_index_seed(false), token_index_seed(true)},
          {std::string("MMIDIDX\0\0", 9), bytes_of(i64{3}), bytes_of(i32{-1})},
          read_token_index};
}

// --- documents ---

// What is taken is what the JSON library takes too, with the same text.
void read_json_document(const std::string& input) {
  static JsonDocuments documents({});
  std::string padded = input;
  padded.reserve(input.size() + JsonDocuments::kPadding);
  const JsonDocuments::Read read = documents.read(padded, "a.jsonl:1");
  const auto json = nlohmann::json::parse(input, nullptr, false);
  if (!json.is_object() || json.at("text") != std::string(read.text)) {
    finding("a document that is not in the line");
  }
}

void read_mended_json(const std::string& input) {
  const std::string mended = mended_json(input);
  if (first_no_utf8(mended)) finding("mended text is no UTF-8");
  if (mended_json(mended) != mended) finding("mended twice is not mended once");
  read_json_document(mended);
}

Target json_document(const char* name, const char* after, void (*read)(const std::string&)) {
  return {name,
          {R"({"id":"a","text":"one\n\u00e9\ud83d\ude00","n":[1.5e3,{"x":null}]})",
           std::string("{\"text\":\"\xC3\xA9") + after + "\",\"id\":7}"},
          {"{",
           "}",
           "\"text\":",
           "\"id\":",
           "\\ud800",
           "\\udc00",
           "\\",
           "\"",
           "\xF0\x9F",
           "1e999",
           "-"},
          read,
          {"{\"text\":\"\",\"x\":" + nested("[", "]", 100'000) + "}"}};
}

// However much is asked for at a time, a packed file gives the same bytes or an error.
void read_packed(const std::string& input, InputFile::Packing packing) {
  static const MemoryFile memory;
  const std::string path = memory.with(input);
  const auto unpacked = [&](std::size_t at_a_time) -> std::optional<std::string> {
    try {
      const auto source = ByteSource::open({path, "input", InputFile::Content::text, packing});
      std::string all, piece(at_a_time, ' ');
      std::size_t count = 0;
      do {
        count = source->read(piece);
        all += piece.substr(0, count);
        if (all.size() > (1U << 20)) break;  // as large as it says that it is
      } while (count == at_a_time);
      return all.substr(0, 1U << 20);
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  const auto whole = unpacked(1U << 20);
  if (whole && whole->size() < (1U << 20) && unpacked(7) != whole) {
    finding("other bytes in small pieces");
  }
  if (!whole) fail("refused");
}

Target packed(const char* name, InputFile::Packing packing, std::vector<std::string> seeds) {
  return {name,
          std::move(seeds),
          {"\x1F\x8B\x08", "\x28\xB5\x2F\xFD", std::string(4, '\0'), "\xFF\xFF"},
          [packing](const std::string& input) { read_packed(input, packing); }};
}

std::string gzip_seed(const std::string& text) {
  std::string out(compressBound(text.size()) + 32, '\0');
  z_stream stream{};
  require(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK,
          "fuzz: no gzip");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd_seed(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

const std::string kPackedText = "{\"text\":\"some text, some text, some text and more\"}\n";

Target gzip() {
  return packed("gzip",
                InputFile::Packing::gzip,
                {gzip_seed(kPackedText), gzip_seed("a") + gzip_seed(kPackedText)});
}

Target zstd() {
  return packed("zstd",
                InputFile::Packing::zstd,
                {zstd_seed(kPackedText), zstd_seed("a") + zstd_seed(kPackedText)});
}

}  // namespace

std::string nested(const std::string& open, const std::string& close, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += open;
  text += '1';
  for (int i = 0; i < times; ++i) text += close;
  return text;
}

std::vector<Target> targets() {
  std::vector<Target> all = {safetensors(), index(), foreign_model()};
  for (Target& target : tokenizer_targets()) all.push_back(std::move(target));
  for (Target& target : task_targets()) all.push_back(std::move(target));
  for (Target& target :
       std::vector<Target>{toml_value(),
                           toml_file(),
                           layout(),
                           wire(),
                           library(),
                           token_index(),
                           json_document("json_document", "", read_json_document),
                           json_document("mended_json", "\xFF\\ud800", read_mended_json),
                           gzip(),
                           zstd()}) {
    all.push_back(std::move(target));
  }
  return all;
}

}  // namespace tessera::fuzz
