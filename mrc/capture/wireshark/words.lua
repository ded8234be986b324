-- SPDX-License-Identifier: BSD-2-Clause
-- Words of the Info column. The functions of WORDS, which follow, are written from the table of `mrc dissect`.

-- The phrases that hold, with spaces between.
local function joined(...)
  local said = {}
  for number = 1, select("#", ...) do
    local phrase = select(number, ...)
    if phrase then said[#said + 1] = phrase end
  end
  return table.concat(said, " ")
end

local function field_of(header, name)
  for _, field in ipairs(HEADERS[header].fields) do
    if field.name == name then return field end
  end
end

local function name_of(header, field_name, number)
  local field = field_of(header, field_name)
  return field.names[number] or field.unknown:format(number)
end
