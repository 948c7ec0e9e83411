#pragma once
#include <string_view>

namespace tessera {

/// What is wrong with a model's table of characters (precompiled_charsmap); empty: nothing, or
/// there is none. The library looks texts up in it without looking at its bounds.
///
/// It is a u32 of how many bytes the trie has, the trie, and texts that each end with a zero byte.
/// The trie is a double array (Aoe 1989) as Darts writes it: u32 units, each with a label in its
/// low byte, a bit 8 that a text ends there, the distance of its children in the higher bits; the
/// unit of an end has bit 31 and the place of the text that comes instead.
std::string_view char_map_damage(std::string_view map);

}  // namespace tessera
