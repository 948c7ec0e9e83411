#include "documents_support.hpp"

#include "tessera/io/token_file.hpp"
#include "tessera/random.hpp"
#include "tests/common/test_folder.hpp"

namespace tessera::testing::documents_support {

std::string corpus(std::string_view name) {
  static const TestFolder kFolder;
  static const bool kWritten = [] {
    for (const auto& [prefix, step] : {std::pair("a", 3), std::pair("b", 5)}) {
      TokenFileWriter writer(kFolder.at(prefix), TokenType::u16);
      for (u32 document = 0; document < 700; ++document) {
        const Philox::Words words = Philox::words(9, {document, static_cast<u32>(step)});
        std::vector<i32> ids;
        for (u32 i = 0; i < words[0] % 11; ++i) {
          ids.push_back(static_cast<i32>('a' + (words[1] + i * static_cast<u32>(step)) % 26));
        }
        ids.push_back('.');
        writer.add(ids);
        writer.end_document();
      }
      writer.finish("");
    }
    return true;
  }();
  (void)kWritten;
  return kFolder.at(name);
}

std::string instructions() {
  static const TestFolder kFolder;
  static const std::string kFile = [] {
    std::string lines;
    for (u32 example = 0; example < 400; ++example) {
      const Philox::Words words = Philox::words(9, {example});
      std::string prompt, answer;
      for (u32 i = 0; i <= words[0] % 4; ++i) {
        prompt += static_cast<char>('a' + (words[1] + 3 * i) % 26);
      }
      for (u32 i = 0; i <= words[2] % 4; ++i) {
        answer += static_cast<char>('A' + (words[1] + 5 * i) % 26);
      }
      lines += fmt::format("{{\"prompt\":\"{}\",\"answer\":\"{}.\"}}\n", prompt, answer);
    }
    return kFolder.write("examples.jsonl", lines);
  }();
  return kFile;
}

Sets decoder(const Sets& data) {
  Sets sets = {"model.embedding.learned_positions=false",
               "model.block.norm.type=\"rmsnorm\"",
               "model.head.norm.type=\"rmsnorm\"",
               "model.block.attention.kv_heads=2",
               "model.block.attention.rotary.type=\"default\"",
               "data.type=\"indexed\"",
               fmt::format("data.path=[\"{}\"]", corpus("a"))};
  return with(std::move(sets), data);
}

Sets blend() {
  return with(
      kApart,
      {fmt::format("data.path=[\"0.3\", \"{}\", \"0.7\", \"{}\"]", corpus("a"), corpus("b"))});
}

Sets answers(std::string_view pack) {
  return {"data.type=\"instructions\"",
          fmt::format("data.path=[\"{}\"]", instructions()),
          fmt::format("data.pack=\"{}\"", pack)};
}

}  // namespace tessera::testing::documents_support
