-- Requests from files, one after the other, so many at once: wrk -s rotate.lua URL -- DEPTH FILE...
local requests, depth, at = {}, 1, 0

function init(arguments)
    depth = tonumber(arguments[1])
    for index = 2, #arguments do
        local file = assert(io.open(arguments[index], "rb"))
        requests[index - 1] = file:read("*a")
        file:close()
    end
end

function request()
    local batch = {}
    for index = 1, depth do
        at = at % #requests + 1
        batch[index] = requests[at]
    end
    return table.concat(batch)
end
