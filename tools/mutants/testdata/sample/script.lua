-- a script
if n <= 2 then return 1 end
